// Routes of datasets.
import { slice } from '../kernel/routes.ts'
import * as datasets from './datasets.ts'
import * as s from './schema.ts'

export const datasetRoutes = slice('Datasets', 'Examples to evaluate applications with, and their versions.')
  .get('/datasets', {
    id: 'listDatasets',
    summary: 'List the datasets of this workspace',
    toleratesUnknown: true,
    query: s.DatasetQuery,
    repeatable: ['id', 'data_type', 'tag_value_id'],
    reply: s.DatasetList,
    verb: datasets.listDatasets,
  })
  .post('/datasets', {
    id: 'createDataset',
    summary: 'Create a dataset',
    toleratesUnknown: true,
    body: s.NewDataset,
    reply: s.Dataset,
    errors: ['dataset_name_taken', 'dataset_exists', 'tag_value_not_found', 'workspace_not_found'],
    location: dataset => `/datasets/${dataset.id}`,
    verb: datasets.createDataset,
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
    toleratesUnknown: true,
    params: s.DatasetRef,
    reply: s.Deleted,
    errors: ['dataset_not_found'],
    versioned: true,
    verb: datasets.deleteDataset,
  })
