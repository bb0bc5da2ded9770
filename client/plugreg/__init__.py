"""The client: what authors, users and hosts run.

cli, console        arguments and exit codes; all printing
config, registries  where settings come from; which registries are known
scaffold, check, publish, statements, signing     for authors
install, uninstall, inventory, plugins_root, info  for users
run, environment, process, launch                  running plugins
remote              a registry over HTTP
"""
