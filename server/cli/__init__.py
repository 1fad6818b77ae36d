"""The commands of `attentive`: one file each, with NAME, HELP, add_arguments(parser) and run(arguments) -> exit status.

A command's imports are its own: `attentive models` starts without what `attentive serve` needs.
"""
