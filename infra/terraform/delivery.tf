# Reads come from the bucket by CloudFront, and go on when the registry and its database are off. The rest goes to the registry.

locals {
  reads = ["/index/*", "/blobs/*", "/attestations/*", "/.well-known/plugreg.json"]

  # CloudFront's own policies, by the ids that they have in every account.
  caching_disabled       = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
  all_viewer_except_host = "b689b0a8-53d0-40ab-baf2-68738e2966ac"
}

resource "aws_cloudfront_origin_access_control" "objects" {
  name                              = "${var.name}-objects"
  origin_access_control_origin_type = "s3"
  signing_behavior                  = "always"
  signing_protocol                  = "sigv4"
}

# Each object carries its own Cache-Control: what is named by a digest or a version is kept for a year, the rest of the
# index is asked for each time.
resource "aws_cloudfront_cache_policy" "as_the_object_says" {
  name        = "${var.name}-as-the-object-says"
  min_ttl     = 0
  default_ttl = 0
  max_ttl     = 31536000

  parameters_in_cache_key_and_forwarded_to_origin {
    enable_accept_encoding_brotli = false
    enable_accept_encoding_gzip   = false

    cookies_config {
      cookie_behavior = "none"
    }

    headers_config {
      header_behavior = "none"
    }

    query_strings_config {
      query_string_behavior = "none"
    }
  }
}

resource "aws_cloudfront_response_headers_policy" "reads" {
  name = "${var.name}-reads"

  cors_config {
    access_control_allow_credentials = false
    origin_override                  = true

    access_control_allow_headers {
      items = ["Range", "If-None-Match", "If-Range"]
    }

    access_control_allow_methods {
      items = ["GET", "HEAD", "OPTIONS"]
    }

    access_control_allow_origins {
      items = ["*"]
    }
  }

  security_headers_config {
    content_type_options {
      override = true
    }
  }
}

resource "aws_cloudfront_distribution" "registry" {
  enabled         = true
  is_ipv6_enabled = true
  http_version    = "http2and3"
  comment         = "plugreg registry ${var.domain}"
  aliases         = [var.domain]
  price_class     = "PriceClass_All"

  origin {
    origin_id                = "objects"
    domain_name              = aws_s3_bucket.objects.bucket_regional_domain_name
    origin_path              = "/${var.prefix}"
    origin_access_control_id = aws_cloudfront_origin_access_control.objects.id
  }

  origin {
    origin_id   = "registry"
    domain_name = var.registry_origin

    custom_origin_config {
      http_port                = 80
      https_port               = 443
      origin_protocol_policy   = "https-only"
      origin_ssl_protocols     = ["TLSv1.2"]
      origin_read_timeout      = 60
      origin_keepalive_timeout = 15
    }
  }

  dynamic "ordered_cache_behavior" {
    for_each = local.reads

    content {
      path_pattern               = ordered_cache_behavior.value
      target_origin_id           = "objects"
      viewer_protocol_policy     = "https-only"
      allowed_methods            = ["GET", "HEAD", "OPTIONS"]
      cached_methods             = ["GET", "HEAD"]
      compress                   = false
      cache_policy_id            = aws_cloudfront_cache_policy.as_the_object_says.id
      response_headers_policy_id = aws_cloudfront_response_headers_policy.reads.id
    }
  }

  default_cache_behavior {
    target_origin_id         = "registry"
    viewer_protocol_policy   = "https-only"
    allowed_methods          = ["GET", "HEAD", "OPTIONS", "PUT", "POST", "PATCH", "DELETE"]
    cached_methods           = ["GET", "HEAD"]
    compress                 = false
    cache_policy_id          = local.caching_disabled
    origin_request_policy_id = local.all_viewer_except_host
  }

  # What is missing now may be there in a moment: clients ask for the root that does not exist yet.
  dynamic "custom_error_response" {
    for_each = [403, 404, 500, 502, 503, 504]

    content {
      error_code            = custom_error_response.value
      error_caching_min_ttl = 0
    }
  }

  viewer_certificate {
    acm_certificate_arn      = var.certificate_arn
    minimum_protocol_version = "TLSv1.2_2021"
    ssl_support_method       = "sni-only"
  }

  restrictions {
    geo_restriction {
      restriction_type = "none"
    }
  }
}
