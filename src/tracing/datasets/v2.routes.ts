// Routes of datasets in the second version of the API of published clients.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './datasets-v2.schema.ts'
import * as datasets from './datasets-v2.ts'
import { DatasetRef } from './schema.ts'

export const datasetV2Routes = slice('Datasets, version 2', 'Datasets, and the runs of experiments on them.')
  .get('/v2/datasets', {
    id: 'listDatasetsV2',
    summary: 'List the datasets of this workspace, page by page',
    description:
      'By default those with the latest experiment first. Go on while `next_cursor` is set, with the same filters.',
    toleratesUnknown: true,
    query: s.DatasetQueryV2,
    repeatable: ['id', 'data_type', 'exclude', 'tag_value_id'],
    reply: s.DatasetPageV2,
    verb: datasets.listDatasetsV2,
  })
  .post('/v2/datasets/{dataset_id}/experiment-runs', {
    id: 'queryExperimentRuns',
    summary: 'List the examples of a dataset with the runs of experiments',
    description:
      'All examples of the latest version, by their ids: one without a run has an empty list. `selects` names the ' +
      'members of the runs. It needs `datasets:read` besides.',
    isReadOnly: true,
    toleratesUnknown: true,
    params: DatasetRef,
    body: s.ExperimentRunQuery,
    reply: s.ExperimentRunPage,
    errors: ['dataset_not_found', 'project_not_found', 'query_too_slow', 'storage_unavailable'],
    verb: datasets.queryExperimentRuns,
  })
