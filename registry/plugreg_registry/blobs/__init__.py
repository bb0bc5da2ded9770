"""Objects, uploads and locks in folders of this machine. A store such as S3 is one more module here."""
