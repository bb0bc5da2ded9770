variable "name" {
  description = "Stands in front of the names of all resources."
  type        = string
  default     = "plugreg"
}

variable "bucket" {
  description = "The name of the bucket; bucket names are unique in the world."
  type        = string
}

variable "prefix" {
  description = "The folder of the registry in the bucket, without slashes."
  type        = string
  default     = "registry"

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]*$", var.prefix))
    error_message = "Write letters, digits and hyphens."
  }
}

variable "domain" {
  description = "The host name that clients use."
  type        = string
}

variable "certificate_arn" {
  description = "The certificate for the domain, in us-east-1, where CloudFront looks for it."
  type        = string
}

variable "registry_origin" {
  description = "The host name of the load balancer in front of the registry processes, reached by HTTPS."
  type        = string
}

variable "vpc_id" {
  description = "The network of the database."
  type        = string
}

variable "subnet_ids" {
  description = "At least two private subnets for the database."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "RDS needs subnets in two availability zones."
  }
}

variable "registry_security_group_id" {
  description = "The security group of the registry processes: only they reach the database."
  type        = string
}

variable "database_class" {
  description = "The size of the database server."
  type        = string
  default     = "db.t4g.medium"
}

variable "database_storage_gib" {
  description = "Where the storage of the database begins; it grows to ten times that."
  type        = number
  default     = 20
}
