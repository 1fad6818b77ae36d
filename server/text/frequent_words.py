"""Words that show the language of a text: frequent short words, and greetings, of which statistics know too little."""

from __future__ import annotations

import re
from functools import lru_cache

from server.text.languages import primary_subtag

_FREQUENT = """
en the of and to is was that with for are this have from not you were which they what there would been his will i at it
en he she has had by but can your my we did does don't it's more some all their about when who if her how or so please
de der und das ist nicht ein eine mit auf für von dem den sich auch wird ich sie zu haben wurde dass sind wie aus im wir
de es einen einem einer hat er war kann bei als nach noch nur oder ihr mein mich mir was wenn durch über werden sein zum zur
fr le les est une dans qui pas sur au avec sont ce cette aux nous vous ont été mais elle où je ne il c'est ils pour plus
fr que entre on du mon ma son ses leur était tout fait peut comme j'ai par sa être votre très moi leurs n'est d'un d'une cet rien
es el los las y una del por con es lo como más pero sus este muy fue hay también esta su cuando yo está ser que no para
es mi le se ha había eso ella tiene puede usted ellos desde todo nos era qué sobre entre son tu estaba hasta porque nada
it con mi su il di che è gli della un non per sono nel più anche questo alla dei ha delle si come ho ma lo ed era
it una del dal nella
pt que entre todo ser o os as um uma não em do da dos das com é mais foi ao são também ele você pelo pela isso está seu na
pt no por eu
nl het een van en niet dat op te zijn voor er aan ook naar wordt hij ik maar bij deze wij om door heeft was de je met
sv och att det som är på inte av för den med jag har till ett kan han om var de hon från vi ska men
da og det er ikke af til på jeg med har som den vi kan han men blev der hun fra efter også et mig
nb og det er ikke av til på jeg med har som den vi kan han men ble hun fra etter også et meg fikk
fi ja on ei se että oli ovat hän mutta kun joka myös minä ole sen mitä tämä kuin niin voi sitä olen
pl nie się na jest z do to jak ale po przez są był tym co tak czy od już tylko ma jego
cs se na že je to v s z ale jako jsem by jsou byl jeho také když pro po od už tak jsme bylo
ro și în de la nu este cu pe un care din mai sunt pentru că au fost sau ca dar lui această
hu a az és hogy nem van egy is volt ez csak meg már mint vagy azt lesz nagyon ha még
tr ve bir bu için ile da de çok daha ne var olarak gibi ama olan ben değil kadar sonra
"""
_WORDS_PER_HIT = 20
"""A text is evidently in a language if it has more of its distinctive words than one in this many words."""
_GREETINGS = """
en: hello, hello there, hi, hi there, hey, bye, bye bye, goodbye, good morning, good evening, good night, see you, see you later
en: thanks, thank you, thank you very much, welcome, yes, yes please, no thanks, please, no problem, how are you
de: hallo, guten tag, guten morgen, guten abend, gute nacht, tschüss, auf wiedersehen, servus, moin, bis bald, bis später
de: bis morgen, danke, danke schön, vielen dank, bitte, bitte schön, willkommen, ja, ja bitte, nein, nein danke, wie geht's
fr: salut, bonjour, bonsoir, bonne nuit, bonne journée, au revoir, à bientôt, à demain, enchanté, allô
fr: merci, merci beaucoup, de rien, bienvenue, oui, non, non merci, s'il vous plaît, s'il te plaît, d'accord, ça va
es: hola, buenos días, buenas tardes, buenas noches, adiós, adios, hasta luego, hasta mañana, hasta pronto, mucho gusto
es: gracias, muchas gracias, de nada, por favor, bienvenido, bienvenida, bienvenidos, sí, no gracias, qué tal, cómo estás
ca: hola, salut, merci, sí
da: ja
gl: de nada, hola, non, por favor
nb: hallo, ja
nl: hallo, ja, moin
pt: de nada, por favor
ro: salut
sv: ja
"""
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_LONGEST = 40
"""A text of more characters is no greeting."""


@lru_cache(maxsize=64)
def distinctive_words(language: str) -> frozenset[str]:
    """Returns the frequent words of a language that no other language of the table shares; empty if it is not there."""
    lists: dict[str, set[str]] = {}
    for row in _FREQUENT.strip().splitlines():
        lists.setdefault(row.split()[0], set()).update(row.split()[1:])
    code = primary_subtag(language)
    others = [words for other, words in lists.items() if other != code]
    return frozenset(lists.get(code, set()).difference(*others))


def is_evidently_in(text: str, language: str) -> bool:
    """Returns whether a text contains enough words that are frequent in this language and in no other of the table.
    False is no evidence of another language."""
    words = distinctive_words(language)
    if not words:
        return False
    found = text.lower().split()
    return sum(map(words.__contains__, found)) > len(found) // _WORDS_PER_HIT


@lru_cache(maxsize=1)
def _languages_by_greeting() -> dict[str, frozenset[str]]:
    """Returns the languages of each greeting."""
    found: dict[str, set[str]] = {}
    for row in _GREETINGS.strip().splitlines():
        language, _, greetings = row.partition(": ")
        for greeting in greetings.split(", "):
            found.setdefault(greeting, set()).add(language)
    return {greeting: frozenset(languages) for greeting, languages in found.items()}


def greeting_languages(text: str) -> frozenset[str]:
    """Returns the codes of the languages in which the whole text is a greeting or a short answer; empty for other texts.
    Case and punctuation do not matter."""
    if len(text) > _LONGEST:
        return frozenset()
    return _languages_by_greeting().get(" ".join(_WORD.findall(text.replace("’", "'").lower())), frozenset())
