// Error codes of datasets.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const datasetsCodes = {
  examples_full: {
    status: 400,
    title: 'Too many examples',
    problem: 'A dataset can have at most 100,000 examples.',
    remedy: 'Delete some first, or use another dataset.',
  },
  example_metadata_full: {
    status: 400,
    title: 'Metadata too large',
    problem: 'The metadata of an example would be larger than 128 KiB.',
    remedy: 'Remove members of it, or set smaller values.',
  },
  clone_too_large: {
    status: 400,
    title: 'Too much to clone at once',
    problem: 'One request copies at most 10,000 examples and 64 MiB.',
    remedy: 'Clone the dataset in parts, by `examples` or `split`.',
  },
  attachment_link_invalid: {
    status: 403,
    title: 'Invalid link to an attachment',
    problem: 'The signature of this link does not match.',
    remedy: 'Use the whole `presigned_url`, unchanged.',
  },
  dataset_not_found: {
    status: 404,
    title: 'Dataset not found',
    problem: 'This workspace has no such dataset.',
    remedy: 'GET /datasets lists the datasets.',
  },
  dataset_version_not_found: {
    status: 404,
    title: 'Dataset version not found',
    problem: 'This dataset has no such version.',
    remedy: 'GET /datasets/{dataset_id}/versions lists the versions.',
  },
  comparative_experiment_not_found: {
    status: 404,
    title: 'Comparative experiment not found',
    problem: 'This comparison was not found in this workspace.',
    remedy: 'GET /datasets/{dataset_id}/comparative lists the comparisons.',
  },
  share_not_found: {
    status: 404,
    title: 'Link not found',
    problem: 'This link does not exist, or the dataset is no longer shared.',
    remedy: 'Ask the owner of the dataset for a new one.',
  },
  example_not_found: {
    status: 404,
    title: 'Example not found',
    problem: 'This workspace has no such example, or not in this dataset or version.',
    remedy: 'GET /examples lists the examples of a dataset.',
  },
  attachment_not_found: {
    status: 404,
    title: 'Attachment not found',
    problem: 'This attachment no longer exists.',
    remedy: 'Read the example again for its attachments.',
  },
  dataset_name_taken: {
    status: 409,
    title: 'Dataset name taken',
    problem: 'This workspace already has a dataset with this `name`.',
    remedy: 'Use it, or choose another name.',
  },
  comparative_experiment_exists: {
    status: 409,
    title: 'Comparative experiment exists',
    problem: 'A comparison with this `id` already exists.',
    remedy: 'Use it, or choose another id.',
  },
  dataset_exists: {
    status: 409,
    title: 'Dataset exists',
    problem: 'A dataset with this `id` already exists.',
    remedy: 'Use it, or choose another id.',
  },
  example_exists: {
    status: 409,
    title: 'Example exists',
    problem: 'This workspace already has another example with this `id`.',
    remedy: 'Change that one, or choose another id.',
  },
  examples_unchecked: {
    status: 409,
    title: 'Schema changed',
    problem: 'The JSON Schema of the dataset changed while the examples were compared with it.',
    remedy: 'Send the request again.',
  },
  attachment_link_expired: {
    status: 410,
    title: 'Link to an attachment expired',
    problem: 'This link is older than an hour.',
    remedy: 'Read the example again for a new one.',
  },
  schema_too_costly: {
    status: 422,
    title: 'Schema too costly',
    problem: 'Comparing these examples with the JSON Schema of the dataset takes too many steps.',
    remedy: 'Send fewer examples in one request, or set a simpler schema.',
  },
  attachments_unavailable: {
    status: 503,
    title: 'Attachments not stored',
    problem: 'The object store did not accept the attachments, so nothing was stored.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
} as const satisfies ErrorCodes
