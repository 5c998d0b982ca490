// Routes of uploads.
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { DeploymentRef } from '../deployments/schema.ts'
import * as s from './uploads.schema.ts'
import { offerNewUpload, offerUpload, receiveUpload } from './uploads.ts'

const linkInput = { params: s.UploadRef, query: s.UploadSignature }

export const uploadRoutes = slice('Uploads', 'Source archives for deployments of the source `internal_source`.')
  .post('/v2/deployments/{deployment_id}/upload-url', {
    id: 'createUploadUrl',
    toleratesUnknown: true,
    summary: 'Get a signed URL to upload a source archive to',
    description: [
      'Pack and send the archive with `tar czf app.tgz .` and `curl -T app.tgz "$upload_url"`.',
      'Then patch `source_revision_config.source_tarball_path` with the `object_path`.',
    ].join(' '),
    params: DeploymentRef,
    reply: s.UploadTarget,
    errors: [
      'deployment_not_found',
      'deployment_deleting',
      'source_rule',
      'uploads_full',
      'upload_links_full',
      'not_configured',
    ],
    verb: offerUpload,
  })
  .post('/v2/uploads', {
    id: 'createUpload',
    summary: 'Get a signed URL to upload the source archive of a new deployment to',
    description: [
      'The answer to the upload has the build plan of the archive. Then create the deployment with the `object_path`',
      'as `source_revision_config.source_tarball_path`, or plan that with `dry_run=true`.',
    ].join(' '),
    body: s.NewUpload,
    status: 201,
    reply: s.UploadTarget,
    errors: ['workspace_not_found', 'uploads_full', 'upload_links_full', 'not_configured'],
    verb: offerNewUpload,
  })
  .put('/v2/uploads/{workspace_id}/{upload_id}', {
    id: 'uploadArchive',
    summary: 'Upload a source archive, a gzip-compressed tar of at most 200 MiB',
    description: 'The URL is an `upload_url`. Its signature replaces a key and works once.',
    ...linkInput,
    bodyMediaType: 'application/gzip',
    longBody: true,
    reply: s.Upload,
    errors: [
      'upload_link_invalid',
      'upload_link_expired',
      'upload_link_used',
      'uploads_full',
      'archive_too_large',
      'not_gzip_type',
      'archive_invalid',
      'archive_too_many_files',
      'body_cut',
      'body_too_slow',
      'not_configured',
      'address_rate_limited',
      'database_unavailable',
      'storage_unavailable',
    ],
    open: async (c, services, operation) => {
      const input = validateInput(c.req, linkInput, '', []) as Parameters<typeof receiveUpload>[1]
      const length = c.req.header('Content-Length')
      const hold = c.get('heldBytes').open(() => input.workspace_id)
      try {
        const upload = await receiveUpload(services, input, {
          stream: c.req.raw.body as ReadableStream<Uint8Array> | null,
          length: length === undefined ? null : Number(length),
          type: c.req.header('Content-Type'),
          hold,
          ...readOpenRequest(c, operation, services),
        })
        return c.json(upload, 200, { 'Cache-Control': 'no-store' })
      } finally {
        hold.release()
      }
    },
  })
