output "settings" {
  description = "What the registry processes need in their environment, besides the address of the database."
  value = {
    PLUGREG_REGISTRY_BLOBS      = "s3://${aws_s3_bucket.objects.bucket}/${var.prefix}"
    PLUGREG_REGISTRY_PUBLIC_URL = "https://${var.domain}"
    PLUGREG_REGISTRY_DOWNLOADS  = "cdn:https://${var.domain}/{key}"
    PLUGREG_REGISTRY_S3_REGION  = aws_s3_bucket.objects.bucket_region
  }
}

output "database_host" {
  description = "The address of the database is postgresql://plugreg:PASSWORD@HOST/plugreg?sslmode=verify-full."
  value       = aws_db_instance.registry.address
}

output "database_password_secret" {
  description = "Where Secrets Manager keeps the password of the database."
  value       = aws_db_instance.registry.master_user_secret[0].secret_arn
}

output "registry_policy_arn" {
  description = "The policy for the role of the registry processes."
  value       = aws_iam_policy.registry.arn
}

output "distribution_domain" {
  description = "The name that a CNAME or alias record for the domain points to."
  value       = aws_cloudfront_distribution.registry.domain_name
}
