"""What is there by name: `pass_registry.py` finds the passes, in the repository or in the installed package;
`reading.py` reads the text of a pipeline, `pass_choice.py` has the one that a user chooses, `contexts.py` what passes
are given; `opset_choice.py` runs the passes again where a file's opset is to be kept.
"""
