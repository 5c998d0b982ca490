// Routes of datasets.
import { slice } from '../../kernel/http/routes.ts'
import { cloneDataset } from './clone.ts'
import { uploadCsv } from './csv-upload.ts'
import * as datasets from './datasets.ts'
import { downloadDataset } from './download.ts'
import { changeSplit } from './example-metadata.ts'
import * as s from './schema.ts'
import * as v from './versions.schema.ts'
import * as versions from './versions.ts'

const CSV_EXAMPLE = {
  contentType: 'multipart/form-data; boundary=table-boundary',
  text: [
    ['file"; filename="rivers.csv', 'country,river\r\nFrance,Seine\r\n'],
    ['input_keys', 'country'],
    ['output_keys', 'river'],
  ]
    .map(([name, text]) => `--table-boundary\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`)
    .concat('--table-boundary--\r\n')
    .join(''),
}

export const datasetRoutes = slice('Datasets', 'Examples to evaluate applications with, and their versions.')
  .get('/datasets', {
    id: 'listDatasets',
    summary: 'List the datasets of this workspace',
    description:
      'By default the one with the latest experiment first. A page that is shorter than `limit` is the last one.',
    toleratesUnknown: true,
    query: s.DatasetQuery,
    repeatable: ['id', 'data_type', 'tag_value_id'],
    reply: s.DatasetList,
    verb: datasets.listDatasets,
  })
  .post('/datasets', {
    id: 'createDataset',
    summary: 'Create a dataset',
    description:
      'It has no examples yet: add them with `POST /examples/bulk`. With a JSON Schema for inputs or outputs, ' +
      'examples that do not fit are refused.',
    toleratesUnknown: true,
    body: s.NewDataset,
    reply: s.Dataset,
    errors: ['dataset_name_taken', 'dataset_exists', 'tag_value_not_found', 'workspace_not_found'],
    location: dataset => `/datasets/${dataset.id}`,
    verb: datasets.createDataset,
  })
  .post('/datasets/upload', {
    id: 'uploadCsvDataset',
    summary: 'Create a dataset of a table in CSV',
    description: [
      'Parts: `file`, whose first line names the columns, at least one `input_keys`, and `output_keys`,',
      '`metadata_keys`, `name`, `description`, `data_type`, `inputs_schema_definition` and',
      '`outputs_schema_definition` as you like. At most 10,000 rows. The cells are texts.',
    ].join(' '),
    rawBody: { 'multipart/form-data': { example: CSV_EXAMPLE } },
    reply: s.Dataset,
    errors: ['dataset_name_taken', 'schema_too_costly', 'workspace_not_found'],
    verb: uploadCsv,
  })
  .delete('/datasets', {
    id: 'deleteDatasets',
    summary: 'Delete datasets with their examples',
    description: 'If one of them does not exist, nothing is deleted.',
    toleratesUnknown: true,
    query: s.DatasetIds,
    repeatable: ['dataset_ids'],
    reply: s.DeletedList,
    errors: ['dataset_not_found'],
    verb: datasets.deleteDatasets,
  })
  .get('/datasets/{dataset_id}', {
    id: 'readDataset',
    summary: 'Read a dataset',
    description:
      'It has the number of its examples and the time of its last version, and not the examples themselves: `GET ' +
      '/examples?dataset=` lists them.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    reply: s.Dataset,
    errors: ['dataset_not_found'],
    versioned: true,
    verb: datasets.readDataset,
  })
  .patch('/datasets/{dataset_id}', {
    id: 'changeDataset',
    summary: 'Change a dataset',
    description:
      'Members that are absent stay as they are. A new JSON Schema holds for examples that are written later.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    body: s.DatasetPatch,
    reply: s.Dataset,
    errors: ['dataset_not_found', 'dataset_name_taken', 'tag_value_not_found', 'project_not_found'],
    versioned: true,
    verb: datasets.changeDataset,
  })
  .delete('/datasets/{dataset_id}', {
    id: 'deleteDataset',
    summary: 'Delete a dataset with its examples',
    description: 'All versions and attachments are deleted. Experiments on it stay as projects. It cannot be undone.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    reply: s.Deleted,
    errors: ['dataset_not_found'],
    versioned: true,
    verb: datasets.deleteDataset,
  })
  .get('/datasets/{dataset_id}/versions', {
    id: 'listDatasetVersions',
    summary: 'List the versions of a dataset, the last one first',
    description:
      'Each write of examples makes a version, which is named by its time. `example` lists those that changed one ' +
      'example.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    query: v.VersionQuery,
    reply: v.DatasetVersionList,
    errors: ['dataset_not_found'],
    verb: versions.listVersions,
  })
  .get('/datasets/{dataset_id}/version', {
    id: 'readDatasetVersion',
    summary: 'Find the version with a tag, or the last one at or before a time',
    description: 'Use the time of the answer as `as_of` of other requests, so that they all read the same examples.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    query: v.VersionName,
    reply: v.DatasetVersion,
    errors: ['dataset_not_found', 'dataset_version_not_found'],
    verb: versions.readVersion,
  })
  .get('/datasets/{dataset_id}/versions/diff', {
    id: 'diffDatasetVersions',
    summary: 'Compare two versions of a dataset',
    description:
      'The answer has the ids of the examples that were added, removed and modified from the first version to the ' +
      'second.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    query: v.VersionPair,
    reply: v.VersionDiff,
    errors: ['dataset_not_found', 'dataset_version_not_found'],
    verb: versions.diffVersions,
  })
  .put('/datasets/{dataset_id}/tags', {
    id: 'tagDatasetVersion',
    summary: 'Give a version a tag, or move the tag to it',
    description:
      'A tag belongs to one version at a time. Requests can name it as `as_of`, so moving it decides what they read. ' +
      '`latest` moves by itself.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    body: v.VersionTag,
    reply: v.DatasetVersion,
    errors: ['dataset_not_found', 'dataset_version_not_found'],
    verb: versions.tagVersion,
  })
  .get('/datasets/{dataset_id}/splits', {
    id: 'listDatasetSplits',
    summary: 'List the names of the splits of a dataset',
    description: 'Of the examples in one version. `GET /examples?splits=` lists the examples of one.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    query: v.SplitQuery,
    reply: v.SplitNames,
    errors: ['dataset_not_found', 'dataset_version_not_found'],
    verb: versions.listSplits,
  })
  .put('/datasets/{dataset_id}/splits', {
    id: 'changeDatasetSplit',
    summary: 'Put examples into a split, or take them out',
    description: 'Answers the examples that the dataset has.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    body: v.SplitChange,
    reply: v.ChangedIds,
    errors: ['dataset_not_found', 'example_metadata_full'],
    verb: changeSplit,
  })
  .post('/datasets/clone', {
    id: 'cloneDataset',
    summary: 'Copy examples of one dataset into another one',
    description: 'At most 10,000 examples and 64 MiB. Attachments are not stored again.',
    toleratesUnknown: true,
    body: v.Clone,
    reply: v.Copies,
    errors: [
      'dataset_not_found',
      'dataset_version_not_found',
      'clone_too_large',
      'examples_full',
      'examples_unchecked',
      'schema_too_costly',
    ],
    verb: cloneDataset,
  })
  .get('/datasets/{dataset_id}/jsonl', {
    id: 'downloadDataset',
    summary: 'Download the examples of a version, one in each line',
    description:
      'JSON Lines, streamed as they are read. A download that was cut just ends early: compare the number of lines ' +
      'with `GET /examples/count`.',
    toleratesUnknown: true,
    params: s.DatasetRef,
    query: v.SplitQuery,
    streamMediaType: 'application/x-ndjson',
    errors: ['dataset_not_found', 'dataset_version_not_found'],
    verb: downloadDataset,
  })
