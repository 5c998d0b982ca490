// The fields of a model: endpoint, authentication, prices and access.
import { type Faults, faultAt } from '../../api/faults.ts'
import { usePages } from '../../api/queries.ts'
import { Chip } from '../../parts/field.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Choices, SecretField } from '../../parts/form-frame.tsx'
import type { NewBody, PatchBody } from './actions.ts'
import { AUTH_TYPES, type Model, PROVIDERS } from './model-state.ts'
import styles from './models.module.css'

export type Draft = {
  name: string
  provider: Model['provider']
  url: string
  model: string
  auth: Model['auth_type']
  /** The stored authentication stays. */
  keepsAuth: boolean
  secret: string
  tokenUrl: string
  clientId: string
  scope: string
  audience: string
  inputPrice: string
  outputPrice: string
  project: string
  access: 'all' | 'some' | 'none'
  deployments: string[]
}
export const EMPTY_DRAFT: Draft = {
  name: '',
  provider: 'openai',
  url: '',
  model: '',
  auth: 'secret',
  keepsAuth: false,
  secret: '',
  tokenUrl: '',
  clientId: '',
  scope: '',
  audience: '',
  inputPrice: '',
  outputPrice: '',
  project: '',
  access: 'all',
  deployments: [],
}
export const toDraft = (model: Model): Draft => ({
  name: model.name,
  provider: model.provider,
  url: model.base_url,
  model: model.model,
  auth: model.auth_type,
  keepsAuth: true,
  secret: '',
  tokenUrl: model.token_url ?? '',
  clientId: model.client_id ?? '',
  scope: model.scope ?? '',
  audience: model.audience ?? '',
  project: model.trace_project ?? '',
  inputPrice: String(model.input_price ?? ''),
  outputPrice: String(model.output_price ?? ''),
  access: model.deployment_ids === null ? 'all' : model.deployment_ids.length === 0 ? 'none' : 'some',
  deployments: model.deployment_ids ?? [],
})

/** Send invalid numbers unchanged: the API explains what is expected. */
const toPrice = (text: string) =>
  text.trim() === '' ? null : Number.isNaN(Number(text)) ? (text as never) : Number(text)

const needsSecret = (auth: Draft['auth']): boolean => auth === 'secret' || auth === 'oauth_client_credentials'

const toAuth = (draft: Draft) => ({
  auth_type: draft.auth,
  ...(needsSecret(draft.auth) && draft.secret && { secret: draft.secret }),
  ...(draft.auth === 'oauth_client_credentials' && {
    token_url: draft.tokenUrl.trim() || null,
    client_id: draft.clientId.trim() || null,
    scope: draft.scope.trim() || null,
    audience: draft.audience.trim() || null,
  }),
})
const toShared = (draft: Draft) => ({
  name: draft.name.trim(),
  provider: draft.provider,
  model: draft.model.trim(),
  input_price: toPrice(draft.inputPrice),
  output_price: toPrice(draft.outputPrice),
  trace_project: draft.project.trim() || null,
  deployment_ids: draft.access === 'all' ? null : draft.access === 'none' ? [] : draft.deployments,
})
export const toBody = (draft: Draft): NewBody => ({
  ...toShared(draft),
  ...(draft.url.trim() && { base_url: draft.url.trim() }),
  ...toAuth(draft),
})
export const toPatch = (draft: Draft): PatchBody => ({
  ...toShared(draft),
  base_url: draft.url.trim(),
  ...(!draft.keepsAuth && toAuth(draft)),
})

const DEFAULT_URLS: Record<Model['provider'], string> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com',
  openai_compatible: 'https://models.example.com/v1',
}

const optionsOf = <Name extends string>(names: Record<Name, string>) =>
  (Object.entries(names) as [Name, string][]).map(([value, label]) => ({ value, label }))

type Props = {
  workspace: string
  draft: Draft
  onChange: (part: Partial<Draft>) => void
  faults: Faults
  model?: Model
}
export function ModelFields({ workspace, draft, onChange, faults, model }: Props) {
  return (
    <>
      <div class={styles.fields}>
        <TextField
          label="Name"
          value={draft.name}
          onChange={name => onChange({ name })}
          placeholder="fast"
          hint="Shown in lists."
          fault={faultAt(faults, 'name')}
        />
        <SelectField
          label="Provider"
          value={draft.provider}
          onChange={provider => onChange({ provider: provider as Model['provider'] })}
          options={optionsOf(PROVIDERS)}
          hint="OpenAI-compatible is any server with chat completions, such as vLLM."
          fault={faultAt(faults, 'provider')}
        />
        <TextField
          label="Model"
          mono
          value={draft.model}
          onChange={model => onChange({ model })}
          placeholder={draft.provider === 'anthropic' ? 'claude-sonnet-4-5' : 'gpt-4.1-mini'}
          hint="The name of the model at the provider."
          fault={faultAt(faults, 'model')}
        />
        <TextField
          label="Base URL"
          mono
          inputMode="url"
          value={draft.url}
          onChange={url => onChange({ url })}
          placeholder={DEFAULT_URLS[draft.provider]}
          hint={
            model
              ? 'Enter the secret again after you change the URL.'
              : draft.provider === 'openai_compatible'
                ? 'The base URL for the SDK of the provider.'
                : 'Leave it empty for the default of the provider.'
          }
          fault={faultAt(faults, 'base_url')}
        />
        <TextField
          label="Price of input"
          inputMode="decimal"
          unit="USD for 1 M tokens"
          value={draft.inputPrice}
          onChange={inputPrice => onChange({ inputPrice })}
          fault={faultAt(faults, 'input_price')}
        />
        <TextField
          label="Price of output"
          inputMode="decimal"
          unit="USD for 1 M tokens"
          value={draft.outputPrice}
          onChange={outputPrice => onChange({ outputPrice })}
          fault={faultAt(faults, 'output_price')}
        />
        <TextField
          label="Trace calls in project"
          value={draft.project}
          onChange={project => onChange({ project })}
          placeholder="None"
          hint="Calls of an application are traced in the project of the application."
          fault={faultAt(faults, 'trace_project')}
        />
      </div>
      {model && (
        <Choices
          legend="Authentication"
          value={draft.keepsAuth ? 'keep' : 'replace'}
          onChange={value => onChange({ keepsAuth: value === 'keep' })}
          options={[
            { value: 'keep', label: 'Keep', detail: `${AUTH_TYPES[model.auth_type]}.` },
            { value: 'replace', label: 'Replace', detail: 'Enter the secret again, or a new one.' },
          ]}
        />
      )}
      {!draft.keepsAuth && <Auth draft={draft} onChange={onChange} faults={faults} />}
      <Choices
        legend="Deployments that can use the model"
        value={draft.access}
        onChange={access => onChange({ access })}
        options={[
          { value: 'all', label: 'All deployments of the workspace' },
          { value: 'some', label: 'Selected deployments' },
          { value: 'none', label: 'None', detail: 'People and API keys can still call the model.' },
        ]}
      />
      {draft.access === 'some' && (
        <Deployments
          workspace={workspace}
          draft={draft}
          onChange={onChange}
          fault={faultAt(faults, 'deployment_ids')}
        />
      )}
    </>
  )
}

const Auth = ({ draft, onChange, faults }: Pick<Props, 'draft' | 'onChange' | 'faults'>) => (
  <>
    <Choices
      legend="Authentication"
      value={draft.auth}
      onChange={auth => onChange({ auth })}
      options={[
        { value: 'secret', label: AUTH_TYPES.secret, detail: 'The key is added to each call.' },
        {
          value: 'jwt',
          label: AUTH_TYPES.jwt,
          detail: 'For your own authentication proxy in front of the model. The token identifies the caller.',
        },
        {
          value: 'oauth_client_credentials',
          label: AUTH_TYPES.oauth_client_credentials,
          detail: 'Slipway fetches a token with client credentials.',
        },
        { value: 'none', label: AUTH_TYPES.none },
      ]}
    />
    {draft.auth === 'oauth_client_credentials' && (
      <div class={styles.fields}>
        <TextField
          label="Token URL"
          mono
          inputMode="url"
          value={draft.tokenUrl}
          onChange={tokenUrl => onChange({ tokenUrl })}
          placeholder="https://auth.example.com/oauth/token"
          fault={faultAt(faults, 'token_url')}
        />
        <TextField
          label="Client id"
          mono
          value={draft.clientId}
          onChange={clientId => onChange({ clientId })}
          fault={faultAt(faults, 'client_id')}
        />
        <TextField
          label="Scope"
          mono
          value={draft.scope}
          onChange={scope => onChange({ scope })}
          fault={faultAt(faults, 'scope')}
        />
        <TextField
          label="Audience"
          mono
          value={draft.audience}
          onChange={audience => onChange({ audience })}
          fault={faultAt(faults, 'audience')}
        />
      </div>
    )}
    {needsSecret(draft.auth) && (
      <SecretField
        label={draft.auth === 'secret' ? 'Key of the provider' : 'Client secret'}
        value={draft.secret}
        onChange={secret => onChange({ secret })}
        fault={faultAt(faults, 'secret')}
      />
    )}
  </>
)

type DeploymentsProps = Pick<Props, 'workspace' | 'draft' | 'onChange'> & { fault: string | undefined }
function Deployments({ workspace, draft: { deployments }, onChange, fault }: DeploymentsProps) {
  const { items = [] } = usePages(workspace, 'GET /v2/deployments', { query: { limit: 100 } })
  const toggle = (id: string) =>
    onChange({ deployments: deployments.includes(id) ? deployments.filter(one => one !== id) : [...deployments, id] })
  const unknown = deployments.filter(id => !items.some(one => one.id === id))
  return (
    <fieldset class={styles.chips}>
      <legend>Select the deployments that can use the model</legend>
      {[...items, ...unknown.map(id => ({ id, name: id }))].map(({ id, name }) => (
        <Chip key={id} pressed={deployments.includes(id)} onPress={() => toggle(id)}>
          {name}
        </Chip>
      ))}
      {fault && <p role="alert">{fault}</p>}
    </fieldset>
  )
}
