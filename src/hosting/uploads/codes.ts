// Error codes of uploads.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const uploadsCodes = {
  archive_unknown: {
    status: 400,
    title: 'Unknown archive',
    problem: '`source_tarball_path` is not the `object_path` of a completed upload in this workspace.',
    remedy: 'Upload the archive first.',
  },
  upload_link_invalid: {
    status: 403,
    title: 'Invalid upload link',
    problem: 'The signature of this link does not match.',
    remedy: 'Use the whole `upload_url`, unchanged.',
  },
  uploads_full: {
    status: 409,
    title: 'Archive storage full',
    problem: 'The archives of this workspace have reached UPLOADS_MAX_GIB.',
    remedy: 'Delete deployments whose archives are no longer needed, or wait: unused archives are removed after a day.',
  },
  upload_links_full: {
    status: 409,
    title: 'Too many upload links',
    problem: 'A workspace can have at most 100 unused upload links.',
    remedy: 'Use one of them, or wait 15 minutes until they expire.',
  },
  upload_link_expired: {
    status: 410,
    title: 'Upload link expired',
    problem: 'This `upload_url` has expired, or the credential that asked for it has ended.',
    remedy: 'Request a new one.',
  },
  upload_link_used: {
    status: 410,
    title: 'Upload link used',
    problem: 'This `upload_url` was already used.',
    remedy: 'Request a new one.',
  },
  archive_too_large: {
    status: 413,
    title: 'Archive too large',
    problem: 'The source archive is larger than 200 MiB.',
    remedy: 'Exclude files that the build does not need.',
  },
  not_gzip_type: {
    status: 415,
    title: 'Body not gzip',
    problem: 'The content type of the request is not gzip.',
    remedy: 'Send the archive as `Content-Type: application/gzip`.',
  },
  archive_too_many_files: {
    status: 422,
    title: 'Too many files',
    problem: 'The archive has more than 100,000 files and folders.',
    remedy: 'Exclude files that the build does not need, such as `node_modules`.',
  },
  archive_invalid: {
    status: 422,
    title: 'Invalid archive',
    problem: 'The body is not a gzip-compressed tar archive.',
    remedy: 'Create it with `tar czf`.',
  },
} as const satisfies ErrorCodes
