// Routes of comparisons of experiments.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './comparisons.schema.ts'
import * as comparisons from './comparisons.ts'
import { DatasetRef } from './schema.ts'

export const comparisonRoutes = slice('Comparative experiments', 'Experiments on one dataset, compared pair by pair.')
  .post('/datasets/comparative', {
    id: 'createComparativeExperiment',
    summary: 'Create a comparison of experiments',
    description: 'Feedback about their runs names it by `comparative_experiment_id`.',
    toleratesUnknown: true,
    body: s.NewComparison,
    reply: s.Comparison,
    errors: ['dataset_not_found', 'project_not_found', 'comparative_experiment_exists', 'quota_full'],
    verb: comparisons.createComparison,
  })
  .get('/datasets/{dataset_id}/comparative', {
    id: 'listComparativeExperiments',
    summary: 'List the comparisons of experiments on a dataset',
    description:
      'By default the newest first. Each names its experiments, and has the feedback about their runs. A page that ' +
      'is shorter than `limit` is the last one.',
    toleratesUnknown: true,
    params: DatasetRef,
    query: s.ComparisonQuery,
    repeatable: ['id'],
    reply: s.ComparisonList,
    errors: ['dataset_not_found'],
    verb: comparisons.listComparisons,
  })
  .delete('/datasets/comparative/{comparative_experiment_id}', {
    id: 'deleteComparativeExperiment',
    summary: 'Delete a comparison of experiments',
    description: 'The experiments and the feedback stay.',
    toleratesUnknown: true,
    params: s.ComparisonRef,
    reply: s.Deleted,
    errors: ['comparative_experiment_not_found'],
    verb: comparisons.deleteComparison,
  })
