// Routes of examples, and of the attachments that links lead to.
import type { Code } from '../../kernel/http/codes.ts'
import { validateInput } from '../../kernel/http/input.ts'
import { slice } from '../../kernel/http/routes.ts'
import { openAttachment } from './attachment-links.ts'
import * as changed from './changed-examples.ts'
import * as deleted from './deleted-examples.ts'
import * as metadata from './example-metadata.ts'
import * as s from './examples.schema.ts'
import * as examples from './examples.ts'
import * as created from './new-examples.ts'
import { DatasetRef } from './schema.ts'
import * as v from './versions.schema.ts'

const BOUNDARY = 'example-boundary'
const UPLOAD_EXAMPLE = {
  contentType: `multipart/form-data; boundary=${BOUNDARY}`,
  text: [
    ['', '{"split":"train"}'],
    ['.inputs', '{"question":"What is the capital of France?"}'],
    ['.outputs', '{"answer":"Paris"}'],
  ]
    .map(([field, json]) => {
      const name = `7d793037-a076-4b9e-9a2d-31d1f27b1f0a${field}`
      return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${json}\r\n`
    })
    .concat(`--${BOUNDARY}--\r\n`)
    .join(''),
}
const CREATION_ERRORS: Code[] = [
  'dataset_not_found',
  'run_not_found',
  'example_exists',
  'examples_full',
  'examples_unchecked',
  'schema_too_costly',
]
const linkInput = { params: s.AttachmentRef, query: s.AttachmentSignature }

export const exampleRoutes = slice('Examples', 'What a dataset consists of: inputs, and the outputs expected for them.')
  .get('/examples', {
    id: 'listExamples',
    summary: 'List the examples of a dataset, as they are or were in one version',
    description:
      'Name a dataset, or examples by `id`. With `as_of`, a page is read from a version that no longer changes. A ' +
      'page that is shorter than `limit` is the last one.',
    toleratesUnknown: true,
    query: s.ExampleQuery,
    repeatable: ['id'],
    lists: ['splits', 'full_text_contains', 'select'],
    reply: s.ExampleList,
    errors: ['dataset_not_found', 'dataset_version_not_found', 'filter_invalid', 'query_too_slow'],
    verb: examples.listExamples,
  })
  .get('/examples/count', {
    id: 'countExamples',
    summary: 'Count the examples of a dataset',
    description: 'Takes the filters of the list. The answer is a number.',
    toleratesUnknown: true,
    query: s.ExampleCountQuery,
    repeatable: ['id'],
    lists: ['splits', 'full_text_contains'],
    reply: s.ExampleCount,
    errors: ['dataset_not_found', 'dataset_version_not_found', 'filter_invalid', 'query_too_slow'],
    verb: examples.countExamples,
  })
  .post('/examples', {
    id: 'createExample',
    summary: 'Create an example',
    description: 'Inputs and outputs are kept byte for byte. A repeated request with the same `id` changes nothing.',
    rawBody: { 'application/json': { schema: s.NewExample } },
    reply: s.Example,
    errors: CREATION_ERRORS,
    verb: created.createExample,
  })
  .post('/examples/bulk', {
    id: 'createExamples',
    summary: 'Create examples of one dataset',
    description: 'All of them or none, in one version.',
    rawBody: { 'application/json': { schema: s.NewExamples } },
    reply: s.ExampleList,
    errors: CREATION_ERRORS,
    verb: created.createExampleList,
  })
  .patch('/examples/bulk', {
    id: 'changeExamples',
    summary: 'Change examples',
    description: 'All of them or none, in one version of each dataset that has some of them.',
    rawBody: { 'application/json': { schema: s.ExampleChanges } },
    reply: s.WrittenExamples,
    errors: ['example_not_found', 'examples_unchecked', 'schema_too_costly'],
    verb: changed.changeExampleList,
  })
  .delete('/examples', {
    id: 'deleteExamples',
    summary: 'Delete examples from the next version on',
    description: 'Earlier versions still have them.',
    toleratesUnknown: true,
    query: s.ExampleIds,
    repeatable: ['example_ids'],
    reply: s.WrittenExamples,
    errors: ['example_not_found'],
    verb: deleted.deleteExamples,
  })
  .get('/examples/{example_id}', {
    id: 'readExample',
    hasContentTag: true,
    summary: 'Read an example, as it is or was in one version',
    description: '`as_of` names the version. Links to attachments are valid for an hour.',
    toleratesUnknown: true,
    params: s.ExampleRef,
    query: s.ExampleVersion,
    reply: s.Example,
    errors: ['example_not_found', 'dataset_version_not_found'],
    verb: examples.readExample,
  })
  .patch('/examples/{example_id}', {
    id: 'changeExample',
    summary: 'Change an example',
    description:
      'Members that are absent stay as they are. It makes a new version of the dataset: earlier ones keep the ' +
      'example as it was.',
    params: s.ExampleRef,
    rawBody: { 'application/json': { schema: s.ExampleChange } },
    reply: s.WrittenExamples,
    errors: ['example_not_found', 'dataset_not_found', 'examples_unchecked', 'schema_too_costly'],
    verb: changed.changeExample,
  })
  .delete('/examples/{example_id}', {
    id: 'deleteExample',
    summary: 'Delete an example from the next version on',
    description:
      'Earlier versions still have it. `POST /v1/platform/datasets/examples/delete` deletes it from all of them.',
    toleratesUnknown: true,
    params: s.ExampleRef,
    reply: s.WrittenExamples,
    errors: ['example_not_found'],
    verb: deleted.deleteExample,
  })
  .post('/v1/platform/datasets/{dataset_id}/examples', {
    id: 'uploadExamples',
    summary: 'Create examples with attachments, from the parts of a form',
    description: [
      'Parts: `<id>` with `metadata`, `split`, `source_run_id` and so on in JSON, `<id>.inputs`, `<id>.outputs` and',
      '`<id>.attachment.<name>`. All examples are stored or none.',
    ].join(' '),
    params: DatasetRef,
    rawBody: { 'multipart/form-data': { example: UPLOAD_EXAMPLE } },
    status: 201,
    reply: s.WrittenExamples,
    errors: [...CREATION_ERRORS, 'uploads_full', 'attachments_unavailable', 'not_configured'],
    verb: created.uploadExamples,
  })
  .patch('/v1/platform/datasets/{dataset_id}/examples', {
    id: 'changeUploadedExamples',
    summary: 'Change examples and their attachments, from the parts of a form',
    description: 'Besides the parts of an upload, `<id>.attachments_operations`: what to `retain` and to `rename`.',
    params: DatasetRef,
    rawBody: { 'multipart/form-data': { example: UPLOAD_EXAMPLE } },
    status: 201,
    reply: s.WrittenExamples,
    errors: [
      'dataset_not_found',
      'example_not_found',
      'examples_unchecked',
      'schema_too_costly',
      'uploads_full',
      'attachments_unavailable',
      'not_configured',
    ],
    verb: changed.changeUploadedExamples,
  })
  .patch('/v1/platform/datasets/{dataset_id}/examples/metadata', {
    id: 'changeExampleMetadata',
    summary: 'Change the metadata of examples, such as their splits',
    description:
      'The operations are applied in their order to each of the examples. The status is always 207: `NOT_FOUND` ' +
      'marks an example that the dataset does not have.',
    toleratesUnknown: true,
    params: DatasetRef,
    body: v.MetadataChange,
    status: 207,
    reply: v.MetadataStatuses,
    errors: ['dataset_not_found', 'example_metadata_full'],
    verb: metadata.changeMetadata,
  })
  .delete('/v1/platform/datasets/{dataset_id}/examples/{example_id}', {
    id: 'deleteExampleOfDataset',
    summary: 'Delete an example of a dataset from the next version on',
    description:
      'Earlier versions still have it. To delete what the latest version no longer has succeeds and changes nothing.',
    idempotent: true,
    toleratesUnknown: true,
    params: s.ExampleOfDatasetRef,
    errors: ['dataset_not_found', 'example_not_found'],
    verb: deleted.deleteExampleOfDataset,
  })
  .post('/v1/platform/datasets/examples/delete', {
    id: 'eraseExamples',
    summary: 'Delete examples from all versions',
    description:
      'With `hard_delete`, they disappear from all versions, which cannot be undone. Without it, earlier versions ' +
      'still have them.',
    toleratesUnknown: true,
    body: s.DeletedExamples,
    reply: s.WrittenExamples,
    errors: ['example_not_found'],
    verb: deleted.eraseExamples,
  })
  .get('/v1/platform/attachments/{tenant_id}/{object_id}', {
    id: 'downloadAttachment',
    summary: 'Download an attachment',
    description: 'The URL is a `presigned_url`. Its signature replaces a key.',
    ...linkInput,
    streamMediaType: '*/*',
    errors: [
      'attachment_link_invalid',
      'attachment_link_expired',
      'attachment_not_found',
      'invalid_request',
      'not_configured',
      'storage_unavailable',
    ],
    open: async (c, services) => {
      const link = validateInput(c.req, linkInput, '', []) as Parameters<typeof openAttachment>[1]
      const stream = await openAttachment(services, link)
      return c.body(stream, 200, {
        'Cache-Control': 'private, max-age=3600',
        'Content-Type': link.media_type,
        // A page that another person uploaded must not run here.
        'Content-Disposition': 'attachment',
        'Content-Security-Policy': 'sandbox',
      })
    },
  })
