"""The commands of `attentive`: one file each, with NAME, HELP, add_arguments(parser) and
run(arguments) -> exit status. A command imports only what it uses, so that `attentive models`
starts quickly."""
