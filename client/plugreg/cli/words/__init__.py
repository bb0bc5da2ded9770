"""The words of the command line, one module for each group of commands. Handlers stand beside this folder."""
