# The records: a PostgreSQL server with a standby in another zone. The password is made and kept by Secrets Manager.

resource "aws_db_subnet_group" "registry" {
  name       = "${var.name}-registry"
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "database" {
  name        = "${var.name}-database"
  description = "PostgreSQL of the plugreg registry"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  security_group_id            = aws_security_group.database.id
  referenced_security_group_id = var.registry_security_group_id
  description                  = "The registry processes"
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
}

resource "aws_db_parameter_group" "registry" {
  name   = "${var.name}-registry"
  family = "postgres17"

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
}

resource "aws_db_instance" "registry" {
  identifier                          = "${var.name}-registry"
  engine                              = "postgres"
  engine_version                      = "17"
  instance_class                      = var.database_class
  allocated_storage                   = var.database_storage_gib
  max_allocated_storage               = var.database_storage_gib * 10
  storage_type                        = "gp3"
  storage_encrypted                   = true
  db_name                             = "plugreg"
  username                            = "plugreg"
  manage_master_user_password         = true
  multi_az                            = true
  publicly_accessible                 = false
  db_subnet_group_name                = aws_db_subnet_group.registry.name
  parameter_group_name                = aws_db_parameter_group.registry.name
  vpc_security_group_ids              = [aws_security_group.database.id]
  backup_retention_period             = 14
  copy_tags_to_snapshot               = true
  auto_minor_version_upgrade          = true
  deletion_protection                 = true
  skip_final_snapshot                 = false
  final_snapshot_identifier           = "${var.name}-registry-last"
  performance_insights_enabled        = true
  enabled_cloudwatch_logs_exports     = ["postgresql"]
  iam_database_authentication_enabled = false
}
