// The preview policy as a form. Its plan is shown first, and what is applied is that plan.
import { useId, useState } from 'preact/hooks'
import { type Action, perform, request } from '../../api/actions.ts'
import { ApiError, getClient, type Reply } from '../../api/client.ts'
import type { Deployment } from '../../format/state.ts'
import { CopyAs } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { toast } from '../../parts/toast.ts'
import styles from './previews.module.css'

export type Policy = Reply<'GET /v2/deployments/{deployment_id}/preview-policy'>
type Plan = {
  changes: { path: string; before: unknown; after: unknown }[]
  new_values: string[]
  previews: { number: number | null; branch: string; matches: boolean }[]
  warnings: string[]
  plan_digest: string
}

const ROUTE = 'PUT /v2/deployments/{deployment_id}/preview-policy'
/** Keeps the stored value of a secret. */
const MASK = '********'
const DAY = 86_400
const defaultsOf = ({ source }: Deployment) => ({
  branches: ['**'],
  kinds: source === 'githost' ? (['pull_requests'] as Kind[]) : [],
  ttl: 7 * DAY,
  max: 10,
  forks: 'deny' as const,
  secrets: [],
  inherited_secrets: [],
  database: null,
})
type Kind = Policy['kinds'][number]

type PolicyDialogProps = { deployment: Deployment; stored: Policy | undefined; onClose: () => void }

export function PolicyDialog({ deployment, stored, onClose }: PolicyDialogProps) {
  const start = stored ?? defaultsOf(deployment)
  const [kinds, setKinds] = useState<Kind[]>(start.kinds)
  const [inherited, setInherited] = useState(start.inherited_secrets.join('\n'))
  const [database, setDatabase] = useState(start.database?.mode ?? '')
  const [source, setSource] = useState((start.database?.mode === 'copy' && start.database.from_deployment_id) || '')
  const [branches, setBranches] = useState(start.branches.join('\n'))
  const [days, setDays] = useState(String(start.ttl / DAY))
  const [max, setMax] = useState(String(start.max))
  const [forks, setForks] = useState<'deny' | 'approve'>(start.forks)
  const [kept, setKept] = useState(start.secrets.map(({ name }) => name))
  const [mode, setMode] = useState<'' | 'none' | 'members'>(stored?.protection.mode ?? '')
  const [added, setAdded] = useState('')
  const [plan, setPlan] = useState<Plan>()
  const [error, setError] = useState<Error>()
  const [busy, setBusy] = useState(false)

  const newSecrets = readVariables(added)
  const body = {
    branches: branches
      .split('\n')
      .map(line => line.trim())
      .filter(Boolean),
    kinds,
    inherited_secrets: inherited
      .split('\n')
      .map(line => line.trim())
      .filter(Boolean),
    database:
      database === ''
        ? null
        : { mode: database, ...(database === 'copy' && source.trim() && { from_deployment_id: source.trim() }) },
    ttl: Math.round(Number(days) * DAY),
    max: Number(max),
    forks,
    // Left out, a new policy protects where the installation is public.
    ...(mode && { protection: { mode, open_paths: stored?.protection.open_paths ?? [] } }),
    secrets: [
      ...kept.filter(name => !newSecrets.some(one => one.name === name)).map(name => ({ name, value: MASK })),
      ...newSecrets,
    ],
    ...(stored?.resource_spec && { resource_spec: stored.resource_spec }),
    ...(stored?.hooks && { hooks: stored.hooks }),
  }
  const options = { params: { deployment_id: deployment.id }, body } as never
  const act = async (work: () => Promise<void>) => {
    setBusy(true)
    setError(undefined)
    await work().catch(caught => {
      setError(caught as Error)
      // A concurrent change was applied: the form stays, and is planned again.
      if (caught instanceof ApiError && caught.code === 'plan_stale') setPlan(undefined)
    })
    setBusy(false)
  }
  const action: Action = {
    label: stored ? 'Apply policy' : 'Set up previews',
    request: { ...request(ROUTE, options), ...(plan && { planDigest: plan.plan_digest }) },
    done: `${deployment.name}: the preview policy is set.`,
  }
  const makePlan = () => act(async () => setPlan((await getClient().plan(ROUTE, options)) as Plan))
  const apply = () =>
    act(async () => {
      await perform(action.request)
      toast('ok', action.done)
      onClose()
    })
  const title = stored ? `Change the preview policy of ${deployment.name}` : `Set up previews of ${deployment.name}`
  return (
    <Dialog
      title={plan ? `Plan: ${title.toLowerCase()}` : title}
      onClose={onClose}
      footer={
        plan ? (
          <>
            <Button onClick={() => setPlan(undefined)}>Back to the form</Button>
            <Button look="primary" busy={busy} onClick={() => void apply()}>
              {action.label}
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button look="primary" busy={busy} onClick={() => void makePlan()}>
              Plan the policy
            </Button>
          </>
        )
      }
    >
      {plan ? (
        <PlanView plan={plan} />
      ) : (
        <div class={styles.form}>
          {deployment.source === 'githost' && (
            <Labelled label="Previews of" hint="A branch with a pull request has that preview only.">
              {control => (
                <select
                  {...control}
                  value={kinds.join()}
                  onChange={({ currentTarget }) => setKinds(currentTarget.value.split(',').filter(Boolean) as Kind[])}
                >
                  <option value="pull_requests">pull requests</option>
                  <option value="branches">branches</option>
                  <option value="pull_requests,branches">pull requests and branches</option>
                  <option value="">nothing, only on request</option>
                </select>
              )}
            </Labelled>
          )}
          <Labelled
            label="Branches"
            hint="One pattern per line. * matches within a path segment, ** matches across slashes, ! excludes."
          >
            {control => (
              <textarea
                {...control}
                rows={Math.max(2, Math.min(6, branches.split('\n').length))}
                value={branches}
                onInput={({ currentTarget }) => setBranches(currentTarget.value)}
              />
            )}
          </Labelled>
          <div class={styles.fieldPair}>
            <Labelled label="Keep for (days)" hint="After the last push.">
              {control => (
                <input
                  {...control}
                  inputMode="decimal"
                  value={days}
                  onInput={({ currentTarget }) => setDays(currentTarget.value)}
                />
              )}
            </Labelled>
            <Labelled label="At most" hint="Previews at once.">
              {control => (
                <input
                  {...control}
                  inputMode="numeric"
                  value={max}
                  onInput={({ currentTarget }) => setMax(currentTarget.value)}
                />
              )}
            </Labelled>
          </div>
          <Labelled label="Pull requests of forks" hint="Forks run code from people without access to the repository.">
            {control => (
              <select
                {...control}
                value={forks}
                onChange={({ currentTarget }) => setForks(currentTarget.value as 'deny' | 'approve')}
              >
                <option value="deny">get no preview</option>
                <option value="approve">get a preview after approval of the commit</option>
              </select>
            )}
          </Labelled>
          <Labelled label="Who may see them" hint="Of a new policy: members, if this installation is public.">
            {control => (
              <select
                {...control}
                value={mode}
                onChange={({ currentTarget }) => setMode(currentTarget.value as 'none')}
              >
                {!stored && <option value="">by default</option>}
                <option value="none">everyone who knows the address</option>
                <option value="members">members, and holders of a link</option>
              </select>
            )}
          </Labelled>
          {kept.length > 0 && (
            <fieldset class={styles.kept}>
              <legend>Stored secrets</legend>
              {kept.map(name => (
                <span key={name}>
                  <code>{name}</code>
                  <Button
                    small
                    look="bare"
                    icon="cross"
                    aria-label={`Remove secret ${name}`}
                    onClick={() => setKept(kept.filter(one => one !== name))}
                  />
                </span>
              ))}
            </fieldset>
          )}
          <Labelled
            label="Inherited secrets"
            hint="Names, one per line. Previews of branches get these of the deployment, and no others."
          >
            {control => (
              <textarea
                {...control}
                rows={2}
                value={inherited}
                onInput={({ currentTarget }) => setInherited(currentTarget.value)}
              />
            )}
          </Labelled>
          <Labelled label="Database" hint="Of each preview, deleted with it.">
            {control => (
              <select
                {...control}
                value={database}
                onChange={({ currentTarget }) => setDatabase(currentTarget.value as '')}
              >
                <option value="">as the resources say</option>
                <option value="none">none</option>
                <option value="empty">an empty one</option>
                <option value="copy">a copy of that of a deployment</option>
              </select>
            )}
          </Labelled>
          {database === 'copy' && (
            <Labelled
              label="Copied from"
              hint="The id of a deployment of the same listener. By default this one. Forks get an empty database."
            >
              {control => (
                <input {...control} value={source} onInput={({ currentTarget }) => setSource(currentTarget.value)} />
              )}
            </Labelled>
          )}
          <Labelled label="New secrets" hint="NAME=value, one per line. They override the secrets of the deployment.">
            {control => (
              <textarea
                {...control}
                rows={2}
                value={added}
                onInput={({ currentTarget }) => setAdded(currentTarget.value)}
              />
            )}
          </Labelled>
        </div>
      )}
      {plan && newSecrets.length === 0 && <CopyAs action={action} />}
      {error && <Problem error={error} />}
    </Dialog>
  )
}

function readVariables(text: string): { name: string; value: string }[] {
  return text
    .split('\n')
    .map(line => line.trim())
    .filter(Boolean)
    .map(line => {
      const at = line.indexOf('=')
      return at === -1 ? { name: line, value: '' } : { name: line.slice(0, at).trim(), value: line.slice(at + 1) }
    })
}

type Control = { id: string; 'aria-describedby': string; autocomplete: 'off'; spellcheck: false }
type LabelledProps = { label: string; hint: string; children: (control: Control) => preact.ComponentChildren }
function Labelled({ label, hint, children }: LabelledProps) {
  const id = useId()
  return (
    <div class={styles.labelled}>
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': `${id}-hint`, autocomplete: 'off', spellcheck: false })}
      <p id={`${id}-hint`}>{hint}</p>
    </div>
  )
}

function PlanView({ plan: { changes, new_values, previews, warnings } }: { plan: Plan }) {
  const matching = previews.filter(({ matches }) => matches).length
  return (
    <>
      {changes.length === 0 && new_values.length === 0 ? (
        <p>No changes.</p>
      ) : (
        <table class={styles.plan}>
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Now</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {changes.map(({ path, before, after }) => (
              <tr key={path}>
                <th scope="row">
                  <code>{path}</code>
                </th>
                <td>{format(before)}</td>
                <td>{format(after)}</td>
              </tr>
            ))}
            {new_values.map(name => (
              <tr key={name}>
                <th scope="row">
                  <code>{name}</code>
                </th>
                <td>–</td>
                <td>a new value, hidden</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {previews.length > 0 && (
        <p>
          {previews.length} open {previews.length === 1 ? 'preview' : 'previews'}, {matching} of them on branches that
          match. Existing previews keep their settings. The policy applies to new previews.
        </p>
      )}
      {warnings.map(warning => (
        <p key={warning} class={styles.newer}>
          <Glyph shape="triangle" tone="warn" />
          <Prose text={warning} />
        </p>
      ))}
    </>
  )
}

const format = (value: unknown): string => {
  if (value === null || value === undefined) return 'not set'
  if (Array.isArray(value)) return value.join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}
