// The texts of the page in the languages of the interface. The server reads this object too, so it is JSON.
export const TEXTS = {
  "en": {
    "skip": "Skip to the text", "pages": "Pages", "explorer": "Look inside", "interface": "Language of this page", "theme": "Light or dark", "heading": "Translator",
    "source": "Source", "from": "From", "to": "To", "detect": "Detect language", "detected": "{0} (detected)", "swap": "Swap languages", "text": "Text to translate",
    "placeholder": "Type or paste text, or drop files", "clear": "Clear", "file": "Translate a file", "translation": "Translation", "copy": "Copy", "copied": "Copied",
    "alternatives": "Alternatives", "none": "The model has no other translation.", "inside": "Look inside", "marked": "Marked", "doubtful": "words are doubtful: the model gave them less than 25 %.",
    "unsure": "The model gave this word less than 25 %.", "flagged": "Sentence {0}: {1}", "truncated": "the translation ends too early.", "repetition": "the translation repeats words.", "omission": "a part of the text is probably not translated.",
    "copied_source": "the text was copied and not translated.", "wrong_language": "the translation is in another language.", "number": "a number or a code is missing or changed.", "placeholder_restored": "the model dropped a placeholder; it was put where it belongs.",
    "via": "via {0}", "count": "{0} characters",
    "progress": "Progress of the translation", "seems": "This text seems to be in {0}.", "fromLanguage": "Translate from {0}", "unserved": "No model here translates from {0}.", "whole": "The text was copied.", "confidence": "Probability of a good translation: {0}",
    "history": "History on this device", "forget": "Delete the history", "glossary": "Glossary", "noGlossary": "No glossary", "ownTerms": "Own terms", "storedGlossary": "A glossary of this server", "pairs": "One in each line: battery = Akku", "remove": "Delete", "files": "Files", "uploading": "uploading", "working": "translating", "cancel": "Cancel", "download": "Download {0}", "failed": "{0}: {1}",
    "local": "Texts stay on this server.", "unreachable": "The server cannot be reached.", "long": "The text has more than {0} characters.", "format": "Files of this kind are not translated. Possible: {0}.",
    "close": "Close", "again": "Try again", "refused": "The server refused this.", "large": "This is too large for the server.", "busy": "Too many requests at the moment.", "starting": "The server is busy or still starting.", "slow": "This took the server too long.", "fault": "Something went wrong on the server.", "key": "This server needs a valid API key.", "yourKey": "Your key:", "wait": "Try again in {0} s."
  },
  "de": {
    "skip": "Zum Text springen", "pages": "Seiten", "explorer": "Hineinsehen", "interface": "Sprache dieser Seite", "theme": "Hell oder dunkel", "heading": "Übersetzer",
    "source": "Ausgangstext", "from": "Von", "to": "Nach", "detect": "Sprache erkennen", "detected": "{0} (erkannt)", "swap": "Sprachen tauschen", "text": "Zu übersetzender Text",
    "placeholder": "Text eingeben oder einfügen, oder Dateien hierher ziehen", "clear": "Leeren", "file": "Datei übersetzen", "translation": "Übersetzung", "copy": "Kopieren", "copied": "Kopiert",
    "alternatives": "Alternativen", "none": "Das Modell hat keine andere Übersetzung.", "inside": "Hineinsehen", "marked": "Markierte", "doubtful": "Wörter sind zweifelhaft: Das Modell gab ihnen weniger als 25 %.",
    "unsure": "Das Modell gab diesem Wort weniger als 25 %.", "flagged": "Satz {0}: {1}", "truncated": "Die Übersetzung endet zu früh.", "repetition": "Die Übersetzung wiederholt Wörter.", "omission": "Ein Teil des Textes ist wahrscheinlich nicht übersetzt.",
    "copied_source": "Der Text wurde kopiert und nicht übersetzt.", "wrong_language": "Die Übersetzung ist in einer anderen Sprache.", "number": "Eine Zahl oder ein Code fehlt oder ist verändert.", "placeholder_restored": "Das Modell ließ einen Platzhalter weg; er wurde an seiner Stelle eingesetzt.",
    "via": "über {0}", "count": "{0} Zeichen",
    "progress": "Fortschritt der Übersetzung", "seems": "Dieser Text ist offenbar auf {0}.", "fromLanguage": "Von {0} übersetzen", "unserved": "Kein Modell übersetzt hier aus dieser Sprache: {0}.", "whole": "Der Text wurde kopiert.", "confidence": "Wahrscheinlichkeit einer guten Übersetzung: {0}",
    "history": "Verlauf auf diesem Gerät", "forget": "Verlauf löschen", "glossary": "Glossar", "noGlossary": "Kein Glossar", "ownTerms": "Eigene Begriffe", "storedGlossary": "Ein Glossar dieses Servers", "pairs": "Einer je Zeile: battery = Akku", "remove": "Löschen", "files": "Dateien", "uploading": "wird hochgeladen", "working": "wird übersetzt", "cancel": "Abbrechen", "download": "{0} herunterladen", "failed": "{0}: {1}",
    "local": "Texte bleiben auf diesem Server.", "unreachable": "Der Server ist nicht erreichbar.", "long": "Der Text hat mehr als {0} Zeichen.", "format": "Dateien dieser Art werden nicht übersetzt. Möglich sind: {0}.",
    "close": "Schließen", "again": "Erneut versuchen", "refused": "Der Server hat das abgelehnt.", "large": "Das ist zu groß für den Server.", "busy": "Im Moment gibt es zu viele Anfragen.", "starting": "Der Server ist ausgelastet oder startet noch.", "slow": "Das hat für den Server zu lange gedauert.", "fault": "Auf dem Server ist etwas schiefgegangen.", "key": "Dieser Server verlangt einen gültigen API-Schlüssel.", "yourKey": "Ihr Schlüssel:", "wait": "In {0} s erneut versuchen."
  },
  "fr": {
    "skip": "Aller au texte", "pages": "Pages", "explorer": "Voir à l’intérieur", "interface": "Langue de cette page", "theme": "Clair ou sombre", "heading": "Traducteur",
    "source": "Source", "from": "De", "to": "Vers", "detect": "Détecter la langue", "detected": "{0} (détecté)", "swap": "Inverser les langues", "text": "Texte à traduire",
    "placeholder": "Saisissez ou collez un texte, ou déposez des fichiers", "clear": "Effacer", "file": "Traduire un fichier", "translation": "Traduction", "copy": "Copier", "copied": "Copié",
    "alternatives": "Autres traductions", "none": "Le modèle n’a pas d’autre traduction.", "inside": "Voir à l’intérieur", "marked": "Les mots marqués", "doubtful": "sont douteux : le modèle leur a donné moins de 25 %.",
    "unsure": "Le modèle a donné moins de 25 % à ce mot.", "flagged": "Phrase {0} : {1}", "truncated": "la traduction s’arrête trop tôt.", "repetition": "la traduction répète des mots.", "omission": "une partie du texte n’est probablement pas traduite.",
    "copied_source": "le texte a été copié et non traduit.", "wrong_language": "la traduction est dans une autre langue.", "number": "un nombre ou un code manque ou a changé.", "placeholder_restored": "le modèle a omis un repère ; il a été remis à sa place.",
    "via": "via {0}", "count": "{0} caractères",
    "progress": "Progression de la traduction", "seems": "Ce texte semble être en {0}.", "fromLanguage": "Traduire depuis : {0}", "unserved": "Aucun modèle ne traduit ici depuis cette langue : {0}.", "whole": "Le texte a été copié.", "confidence": "Probabilité d’une bonne traduction : {0}",
    "history": "Historique sur cet appareil", "forget": "Supprimer l’historique", "glossary": "Glossaire", "noGlossary": "Aucun glossaire", "ownTerms": "Mes termes", "storedGlossary": "Un glossaire de ce serveur", "pairs": "Un par ligne : battery = batterie", "remove": "Supprimer", "files": "Fichiers", "uploading": "envoi", "working": "traduction", "cancel": "Annuler", "download": "Télécharger {0}", "failed": "{0} : {1}",
    "local": "Les textes restent sur ce serveur.", "unreachable": "Le serveur est injoignable.", "long": "Le texte dépasse {0} caractères.", "format": "Les fichiers de ce type ne sont pas traduits. Possibles : {0}.",
    "close": "Fermer", "again": "Réessayer", "refused": "Le serveur a refusé cette demande.", "large": "C’est trop grand pour le serveur.", "busy": "Trop de demandes pour le moment.", "starting": "Le serveur est occupé ou démarre encore.", "slow": "Le traitement a duré trop longtemps.", "fault": "Une erreur s’est produite sur le serveur.", "key": "Ce serveur demande une clé d’API valide.", "yourKey": "Votre clé :", "wait": "Réessayez dans {0} s."
  },
  "es": {
    "skip": "Ir al texto", "pages": "Páginas", "explorer": "Ver por dentro", "interface": "Idioma de esta página", "theme": "Claro u oscuro", "heading": "Traductor",
    "source": "Origen", "from": "De", "to": "A", "detect": "Detectar idioma", "detected": "{0} (detectado)", "swap": "Intercambiar idiomas", "text": "Texto para traducir",
    "placeholder": "Escriba o pegue un texto, o suelte archivos", "clear": "Borrar", "file": "Traducir un archivo", "translation": "Traducción", "copy": "Copiar", "copied": "Copiado",
    "alternatives": "Alternativas", "none": "El modelo no tiene otra traducción.", "inside": "Ver por dentro", "marked": "Las palabras marcadas", "doubtful": "son dudosas: el modelo les dio menos del 25 %.",
    "unsure": "El modelo dio a esta palabra menos del 25 %.", "flagged": "Frase {0}: {1}", "truncated": "la traducción termina demasiado pronto.", "repetition": "la traducción repite palabras.", "omission": "una parte del texto probablemente no está traducida.",
    "copied_source": "el texto se copió y no se tradujo.", "wrong_language": "la traducción está en otro idioma.", "number": "falta o cambia un número o un código.", "placeholder_restored": "el modelo omitió un marcador; se puso en su lugar.",
    "via": "vía {0}", "count": "{0} caracteres",
    "progress": "Progreso de la traducción", "seems": "Este texto parece estar en {0}.", "fromLanguage": "Traducir del {0}", "unserved": "Ningún modelo traduce aquí desde este idioma: {0}.", "whole": "El texto se copió.", "confidence": "Probabilidad de una buena traducción: {0}",
    "history": "Historial en este dispositivo", "forget": "Borrar el historial", "glossary": "Glosario", "noGlossary": "Ningún glosario", "ownTerms": "Términos propios", "storedGlossary": "Un glosario de este servidor", "pairs": "Uno en cada línea: battery = batería", "remove": "Eliminar", "files": "Archivos", "uploading": "subiendo", "working": "traduciendo", "cancel": "Cancelar", "download": "Descargar {0}", "failed": "{0}: {1}",
    "local": "Los textos se quedan en este servidor.", "unreachable": "No se puede acceder al servidor.", "long": "El texto tiene más de {0} caracteres.", "format": "No se traducen archivos de este tipo. Posibles: {0}.",
    "close": "Cerrar", "again": "Reintentar", "refused": "El servidor rechazó la solicitud.", "large": "Es demasiado grande para el servidor.", "busy": "Hay demasiadas solicitudes en este momento.", "starting": "El servidor está ocupado o aún se está iniciando.", "slow": "La operación tardó demasiado.", "fault": "Se produjo un error en el servidor.", "key": "Este servidor requiere una clave de API válida.", "yourKey": "Su clave:", "wait": "Vuelva a intentarlo en {0} s."
  }
};
