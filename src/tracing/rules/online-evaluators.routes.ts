// Routes of evaluators that several rules use.
import { slice } from '../../kernel/http/routes.ts'
import { readEvaluatorSpending } from './evaluator-spending.ts'
import * as s from './online-evaluators.schema.ts'
import * as evaluators from './online-evaluators.ts'

const PATH = '/v1/platform/evaluators'

export const onlineEvaluatorRoutes = slice('Evaluators', 'Prompts that models answer about runs, for several rules.')
  .get(PATH, {
    id: 'listOnlineEvaluators',
    summary: 'List the evaluators of this workspace, with the rules that use them',
    description:
      'Each has the rules that use it and what they spent this week. A page that is shorter than `limit` is the last ' +
      'one.',
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
    description:
      'Send exactly one of `group_by`, `evaluator_id`, `session_id` and `dataset_id`. Calls of models without a ' +
      'price cost nothing here. Totals of the seven days before are beside those of the window.',
    toleratesUnknown: true,
    query: s.SpendQuery,
    reply: s.Spending,
    verb: readEvaluatorSpending,
  })
  .get(`${PATH}/{evaluator_id}`, {
    id: 'readOnlineEvaluator',
    summary: 'Read an evaluator',
    description: 'It has its prompt, its model, and the rules that use it.',
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
    description: 'All rules that use it do so with the change from their next run on.',
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
    description:
      'While rules use it, it takes `delete_run_rules=true`, which deletes these rules with their logs. Feedback ' +
      'that it gave stays.',
    versioned: true,
    toleratesUnknown: true,
    params: s.EvaluatorRef,
    query: s.DeleteQuery,
    errors: ['evaluator_not_found', 'evaluator_in_use'],
    verb: evaluators.deleteOnlineEvaluator,
  })
