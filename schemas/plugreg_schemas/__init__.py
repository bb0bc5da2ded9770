"""The contract between author, registry and client: what a bundle is and when it is acceptable.

Pure: bytes and streams in, values out. No sockets, no framework, no database; files are opened only by
`tree.DirectoryTree`. Both sides run this code, so both reach the same verdict on the same bytes.

    errors        the tree of errors, their codes, and `Collector`
    names         plugin names, references, digests, registry ids
    versions      SemVer versions and the range grammar; `core_version` has the one of dagstack
    documents     JSON and YAML bytes to values, strictly; `toml` the same for TOML
    fields        pydantic fields for names, and from outside bytes to a model
    tree          a plugin's files, wherever they lie, and the containment rule
    runtimes      the five ways a component can be run; `platforms` where a native program runs
    manifest      the normal form that every manifest format is read into
    formats/      one reader per manifest format
    bundle/       the canonical archive: pack, open, digest
    acceptance    what a registry demands of a plugin beyond its own format; `launchers` what they fetch
    dependencies  in which order plugins that need each other come
    resolve       which runtime a host uses; with `hosts`, `alternatives`, `grounds`, `tiers`
    statement     the signed statements and their envelope
    history       the fold over a plugin's statements: owners, yanks, status
    trust/        who signed (verifiers) apart from whether they may (policy)
    api           the HTTP models and the static documents
    ide_settings  the settings of a host that is a development environment; `wire_names` what tools are called
    export        the published JSON Schemas
"""
