// The fields of a model: where it is, how calls are authenticated, what it costs, and who may call it.
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

/** What is no number is sent as it is, so that the API says what it has to be. */
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
          hint="How people find it here."
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
          hint="Its name at the provider."
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
              ? 'Another URL needs the secret again.'
              : draft.provider === 'openai_compatible'
                ? 'What the SDK takes as its base URL.'
                : 'Leave it empty for that of the provider.'
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
          label="Trace calls in the project"
          value={draft.project}
          onChange={project => onChange({ project })}
          placeholder="In none"
          hint="Calls of an application are traced in its own project."
          fault={faultAt(faults, 'trace_project')}
        />
      </div>
      {model && (
        <Choices
          legend="Authentication"
          value={draft.keepsAuth ? 'keep' : 'replace'}
          onChange={value => onChange({ keepsAuth: value === 'keep' })}
          options={[
            { value: 'keep', label: 'As it is', detail: `${AUTH_TYPES[model.auth_type]}.` },
            { value: 'replace', label: 'Replace it', detail: 'Also to give the secret again, or a new one.' },
          ]}
        />
      )}
      {!draft.keepsAuth && <Auth draft={draft} onChange={onChange} faults={faults} />}
      <Choices
        legend="Which deployments may use it"
        value={draft.access}
        onChange={access => onChange({ access })}
        options={[
          { value: 'all', label: 'All of the workspace' },
          { value: 'some', label: 'Some' },
          { value: 'none', label: 'None', detail: 'People and API keys still may.' },
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
      legend="How calls are authenticated"
      value={draft.auth}
      onChange={auth => onChange({ auth })}
      options={[
        { value: 'secret', label: AUTH_TYPES.secret, detail: 'It is added to each call.' },
        {
          value: 'jwt',
          label: AUTH_TYPES.jwt,
          detail: 'For an authentication proxy of yours in front of the model. It says who calls.',
        },
        {
          value: 'oauth_client_credentials',
          label: AUTH_TYPES.oauth_client_credentials,
          detail: 'A token is fetched.',
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
      <legend>Press those that may use it</legend>
      {[...items, ...unknown.map(id => ({ id, name: id }))].map(({ id, name }) => (
        <Chip key={id} pressed={deployments.includes(id)} onPress={() => toggle(id)}>
          {name}
        </Chip>
      ))}
      {fault && <p role="alert">{fault}</p>}
    </fieldset>
  )
}
