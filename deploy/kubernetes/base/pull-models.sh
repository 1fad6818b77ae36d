#!/bin/sh
# Fills /volume: the models of the image, and those of $MODELS that are not there yet. Several pods may share the volume, so a
# folder appears under its name only when it is whole.
set -eu
for folder in /models/*/; do
    name=$(basename "$folder")
    copy="/volume/.$name.$HOSTNAME"
    [ -e "/volume/$name" ] && continue
    rm -rf "$copy" # of a run that was interrupted
    cp -R "$folder" "$copy"
    mv -T "$copy" "/volume/$name" || rm -rf "$copy"
done
for model in $MODELS; do
    pulled="/volume/.pulled-$(echo "$model" | tr / _)"
    [ -e "$pulled" ] && continue
    attentive pull "$model" --weights /volume --replace
    touch "$pulled"
done
