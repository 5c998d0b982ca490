// Actions on model configurations, budgets and the settings of the proxy, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { CallOptions, Me } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'
import { explainMissingInOrganization } from '../members/actions.ts'
import type { Budget, Model } from './model-state.ts'

export type NewBody = NonNullable<CallOptions<'POST /v1/model-configurations'>['body']>
export type PatchBody = NonNullable<CallOptions<'PATCH /v1/model-configurations/{configuration_id}'>['body']>
export type NewBudgetBody = NonNullable<CallOptions<'POST /v1/model-budgets'>['body']>
export type SettingsBody = NonNullable<CallOptions<'PATCH /orgs/current/model-proxy'>['body']>
type Unavailable = string | undefined

export const explainMissingManagement = (me: Me, workspace: string): Unavailable =>
  explainMissing(me, workspace, 'workspaces:manage-model-configs')

const refOf = ({ id }: Pick<Model, 'id'>) => ({ params: { configuration_id: id } })
/** For a copied command. */
const withoutSecret = <Body extends { secret?: string | null | undefined }>(body: Body): Body =>
  body.secret ? { ...body, secret: 'YOUR-SECRET' } : body

export const createModel = (body: NewBody, unavailable: Unavailable): Action => ({
  label: 'Create model',
  request: request('POST /v1/model-configurations', { body }),
  copied: request('POST /v1/model-configurations', { body: withoutSecret(body) }),
  unavailable,
  done: `The model ${body.name} is created.`,
})

export const changeModel = (model: Model, body: PatchBody, unavailable: Unavailable): Action => ({
  label: 'Save model',
  request: request('PATCH /v1/model-configurations/{configuration_id}', { ...refOf(model), body }),
  copied: request('PATCH /v1/model-configurations/{configuration_id}', { ...refOf(model), body: withoutSecret(body) }),
  unavailable,
  done: 'The model is saved.',
})

export const testModel = (model: Pick<Model, 'id'>, unavailable: Unavailable): Action => ({
  label: 'Test model',
  request: request('POST /v1/model-configurations/{configuration_id}/test', refOf(model)),
  unavailable,
  done: 'The model was called.',
})

export const deleteModel = (model: Model, unavailable: Unavailable): Action => ({
  label: 'Delete model',
  request: request('DELETE /v1/model-configurations/{configuration_id}', refOf(model)),
  unavailable,
  confirm: {
    title: `Delete the model ${model.name}?`,
    body: 'Calls to the URL of the model fail from then on. The secret is deleted. The usage is kept.',
    isDestructive: true,
  },
  done: `The model ${model.name} is deleted.`,
})

export const createBudget = (body: NewBudgetBody, unavailable: Unavailable): Action => ({
  label: 'Create budget',
  request: request('POST /v1/model-budgets', { body }),
  unavailable,
  done: 'The budget is created.',
})

export const deleteBudget = (budget: Budget, unavailable: Unavailable): Action => ({
  label: 'Delete budget',
  request: request('DELETE /v1/model-budgets/{budget_id}', { params: { budget_id: budget.id } }),
  unavailable,
  confirm: {
    title: `Delete the budget of the ${budget.period}?`,
    body: 'The budget no longer limits calls. The usage is kept.',
  },
  done: 'The budget is deleted.',
})

export const changeSettings = (me: Me, body: SettingsBody): Action => ({
  label: 'Save settings',
  request: request('PATCH /orgs/current/model-proxy', { body }),
  unavailable: explainMissingInOrganization(me, 'organization:update'),
  done: 'The settings are saved. They apply from the next call on.',
})
