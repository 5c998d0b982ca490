// Routes of evaluators that several rules use.
import { slice } from '../kernel/routes.ts'
import { readEvaluatorSpending } from './evaluator-spending.ts'
import * as s from './online-evaluators.schema.ts'
import * as evaluators from './online-evaluators.ts'

const PATH = '/v1/platform/evaluators'

export const onlineEvaluatorRoutes = slice('Evaluators', 'Prompts that models answer about runs, for several rules.')
  .get(PATH, {
    id: 'listOnlineEvaluators',
    summary: 'List the evaluators of this workspace, with the rules that use them',
    toleratesUnknown: true,
    query: s.OnlineEvaluatorQuery,
    repeatable: ['resource_id', 'tag_value_id'],
    reply: s.OnlineEvaluatorList,
    verb: evaluators.listOnlineEvaluators,
  })
  .post(PATH, {
    id: 'createOnlineEvaluator',
    summary: 'Create an evaluator',
    description: 'Rules use it by their `evaluator_id`.',
    toleratesUnknown: true,
    body: s.NewOnlineEvaluator,
    reply: s.OnlineEvaluatorAnswer,
    errors: ['evaluator_exists', 'model_not_found', 'workspace_not_found', 'quota_full'],
    verb: evaluators.createOnlineEvaluator,
  })
  .delete(PATH, {
    id: 'deleteOnlineEvaluators',
    summary: 'Delete evaluators',
    description: 'The answer says which of them, and why others are left. If nothing can be deleted, it is an error.',
    toleratesUnknown: true,
    query: s.BulkDeleteQuery,
    repeatable: ['evaluator_ids'],
    reply: s.BulkDeleted,
    errors: ['evaluator_not_found', 'evaluator_in_use'],
    verb: evaluators.deleteOnlineEvaluators,
  })
  .get(`${PATH}/spend`, {
    id: 'readEvaluatorSpending',
    summary: 'Read what evaluators cost in seven days',
    toleratesUnknown: true,
    query: s.SpendQuery,
    reply: s.Spending,
    verb: readEvaluatorSpending,
  })
  .get(`${PATH}/{evaluator_id}`, {
    id: 'readOnlineEvaluator',
    summary: 'Read an evaluator',
    versioned: true,
    toleratesUnknown: true,
    params: s.EvaluatorRef,
    reply: s.OnlineEvaluator,
    errors: ['evaluator_not_found'],
    verb: evaluators.readOnlineEvaluator,
  })
  .patch(`${PATH}/{evaluator_id}`, {
    id: 'changeOnlineEvaluator',
    summary: 'Change an evaluator',
    versioned: true,
    toleratesUnknown: true,
    params: s.EvaluatorRef,
    body: s.OnlineEvaluatorPatch,
    reply: s.OnlineEvaluatorAnswer,
    errors: ['evaluator_not_found', 'evaluator_exists', 'model_not_found'],
    verb: evaluators.changeOnlineEvaluator,
  })
  .delete(`${PATH}/{evaluator_id}`, {
    id: 'deleteOnlineEvaluator',
    summary: 'Delete an evaluator',
    versioned: true,
    toleratesUnknown: true,
    params: s.EvaluatorRef,
    query: s.DeleteQuery,
    errors: ['evaluator_not_found', 'evaluator_in_use'],
    verb: evaluators.deleteOnlineEvaluator,
  })
