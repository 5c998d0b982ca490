// The answer to a client's first request: how it may send runs to this installation.

import { CONTENT_CODINGS } from '../../kernel/http/decompress.ts'
import { VERSION } from '../../kernel/version.ts'
import type { BodyLimits } from '../../platform.ts'
import type { Info } from '../ingest/ingestion.schema.ts'

/** The version of the API, as its published clients count: they warn of an older one. */
const API_VERSION = '0.18.0'
const MAX_BATCH_BYTES = 20 * 1024 * 1024
const BATCH_OPERATIONS = 100

export async function readInfo({ rawBodies }: { rawBodies: BodyLimits }): Promise<Info> {
  return {
    version: API_VERSION,
    app_version: VERSION,
    git_sha: null,
    license_expiration_time: null,
    customer_info: null,
    batch_ingest_config: {
      use_multipart_endpoint: true,
      size_limit: BATCH_OPERATIONS,
      // A client sends a batch once it is as large, so the last run may exceed it.
      size_limit_bytes: Math.min(MAX_BATCH_BYTES, rawBodies.bytes / 2),
      scale_up_qsize_trigger: 1000,
      scale_up_nthreads_limit: 16,
      scale_down_nempty_trigger: 4,
    },
    instance_flags: {
      gzip_body_enabled: CONTENT_CODINGS.includes('gzip'),
      zstd_compression_enabled: CONTENT_CODINGS.includes('zstd'),
      dataset_examples_multipart_enabled: true,
    },
  }
}
