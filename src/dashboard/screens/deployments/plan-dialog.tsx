// The plan of a change: its differences, effects and losses. Apply sends the digest of this plan. After a concurrent
// change the dialog shows who changed what, and keeps the draft.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { flattenChanges } from '../../../client/changes.ts'
import type { Item } from '../../../client/client.ts'
import { toCommand, toCurl } from '../../api/action-command.ts'
import { perform } from '../../api/actions.ts'
import { ApiError, getClient, type Reply, workspaceId } from '../../api/client.ts'
import { useRead } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { type Difference, DiffTable, formatValue, NewValue, OldValue } from '../../parts/diff.tsx'
import { Chip } from '../../parts/field.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { toast } from '../../parts/toast.ts'
import { leaveOutSecrets, type PlannedChange, type PlannedRequest } from './change-requests.ts'
import styles from './plan.module.css'
import {
  describeApply,
  describeEffect,
  EFFECTS,
  isWithoutChange,
  listRows,
  type Plan,
  type PlanRow,
} from './plan-words.ts'

type Event = Reply<'GET /v2/events'>['resources'][number]
type Revision = Item<'GET /v2/deployments/{deployment_id}/revisions'>
type Planned = {
  request: PlannedRequest
  plan: Plan
  /** The newest event before the plan was made, if the caller may read events. */
  after: number | undefined
}

const SHOWN_REVISIONS = 10
const NO_REVISIONS: Revision[] = []

export type PlanDialogProps = {
  workspace: string
  deployment: Deployment
  change: PlannedChange
  onClose: () => void
  onApplied?: () => void
  onDiscard?: () => void
  children?: ComponentChildren
}

export default function PlanDialog({
  workspace,
  deployment,
  change,
  onClose,
  onApplied,
  onDiscard,
  children,
}: PlanDialogProps) {
  const ref = { params: { deployment_id: deployment.id } }
  const { data } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', {
    ...ref,
    query: { limit: SHOWN_REVISIONS },
  })
  const revisions = data?.resources ?? NO_REVISIONS
  const { planned, error, meanwhile, isPlanning, isApplying, planAgain, apply } = usePlan(deployment.id, change, () => {
    toast('ok', change.done)
    onApplied?.()
    onClose()
  })
  const plan = planned?.plan
  const isStale = meanwhile !== undefined
  const isRefused = plan?.changes.some(({ effect }) => effect === 'immutable') ?? false
  const canApply = plan !== undefined && !isStale && !isRefused && !isWithoutChange(plan)
  const lead = isStale
    ? `Nothing was applied.${onDiscard ? ' Your draft is kept.' : ''}`
    : plan && `${describeEffect(plan, revisions, deployment.active_revision_id)} Nothing was changed.`
  return (
    <Dialog
      wide
      title={change.title}
      onClose={onClose}
      footer={
        <div class={styles.footer}>
          {plan && <Digest digest={plan.plan_digest} isRefused={isStale} />}
          <span class={styles.buttons}>
            {isStale && onDiscard && (
              <Button
                look="danger"
                onClick={() => {
                  onDiscard()
                  onClose()
                }}
              >
                Discard draft
              </Button>
            )}
            <Button hint="Esc" onClick={onClose}>
              {onDiscard ? 'Close and keep the draft' : canApply ? 'Cancel' : 'Close the plan'}
            </Button>
            {(isStale || error) && (
              <Button look="primary" icon="again" hint="Ctrl Enter" busy={isPlanning} onClick={planAgain}>
                Plan again
              </Button>
            )}
            {canApply && !error && (
              <Button look="primary" hint="Ctrl Enter" busy={isApplying || isPlanning} onClick={apply}>
                {describeApply(change.verb, plan, revisions)}
              </Button>
            )}
          </span>
        </div>
      }
    >
      <p role="status">{lead ?? (error ? 'No plan.' : 'Planning …')}</p>
      {children}
      {isStale && <Meanwhile events={meanwhile} />}
      {!plan && !error && <Skeleton lines={3} />}
      {plan && !isWithoutChange(plan) && <Changes plan={plan} meanwhile={meanwhile ?? []} isOld={isPlanning} />}
      {plan && isWithoutChange(plan) && (
        <p class={styles.none}>
          <Glyph shape="check" tone="ok" />
          No changes to apply.
        </p>
      )}
      {plan && <Warnings plan={plan} isRefused={isRefused} />}
      {error && <Problem error={nameSecrets(error, planned?.request)} />}
      {canApply && <Commands request={planned!.request} digest={plan.plan_digest} />}
    </Dialog>
  )
}

function usePlan(deployment_id: string, change: PlannedChange, onDone: () => void) {
  const [planned, setPlanned] = useState<Planned>()
  const [error, setError] = useState<Error>()
  const [meanwhile, setMeanwhile] = useState<Event[]>()
  const [busy, setBusy] = useState<'planning' | 'applying' | undefined>('planning')
  const attempt = useRef(0)

  async function plan(): Promise<void> {
    const mine = ++attempt.current
    setBusy('planning')
    setError(undefined)
    try {
      const client = getClient()
      // Read both before the plan: the plan has changes that are made in between.
      const [after, current] = await Promise.all([
        client.call('GET /v2/events', { query: { order: 'desc', limit: 1 } }).then(
          ({ resources }) => resources[0]?.number ?? 0,
          () => undefined,
        ),
        client.call('GET /v2/deployments/{deployment_id}', { params: { deployment_id } }),
      ])
      const request = change.request(current)
      const made = (await client.plan(request.route, request.options as never)) as Plan
      if (mine !== attempt.current) return
      setPlanned({ request, plan: made, after })
      setMeanwhile(undefined)
    } catch (caught) {
      if (mine === attempt.current) setError(caught as Error)
    }
    if (mine === attempt.current) setBusy(undefined)
  }

  async function apply(): Promise<void> {
    const { request, plan, after } = planned!
    setBusy('applying')
    setError(undefined)
    try {
      await perform({ ...request, planDigest: plan.plan_digest })
      onDone()
    } catch (caught) {
      if (caught instanceof ApiError && caught.code === 'plan_stale')
        setMeanwhile(await readChanges(deployment_id, after))
      else setError(caught as Error)
    }
    setBusy(undefined)
  }

  useEffect(() => void plan(), [change.key])
  return {
    planned,
    error,
    meanwhile,
    planAgain: () => void plan(),
    apply: () => void apply(),
    isPlanning: busy === 'planning',
    isApplying: busy === 'applying',
  }
}

/** Newest first. Empty if the caller may not read events. */
async function readChanges(subject_id: string, after: number | undefined): Promise<Event[]> {
  if (after === undefined) return []
  const query = { after, subject_id, limit: 50 }
  const page = await getClient()
    .call('GET /v2/events', { query })
    .catch(() => undefined)
  return page?.resources.toReversed().map(event => ({ ...event, changes: flattenChanges(event.changes) })) ?? []
}

/** Faults of secrets name the variable, whose place in the request the person cannot know. */
function nameSecrets(error: Error, request: PlannedRequest | undefined): Error {
  const { secrets } = (request?.options.body ?? {}) as { secrets?: { name: string }[] }
  if (!(error instanceof ApiError) || !secrets) return error
  for (const fault of error.errors) {
    const [, member, index] = fault.loc
    if (member === 'secrets' && typeof index === 'number') fault.loc[2] = secrets[index]?.name ?? index
  }
  return error
}

const Digest = ({ digest, isRefused }: { digest: string; isRefused: boolean }) => (
  <span class={styles.digest}>
    {isRefused ? 'Refused digest' : 'Digest'}{' '}
    {isRefused ? (
      <s>
        <code>{shortDigest(digest)}</code>
      </s>
    ) : (
      <>
        <code title={digest}>{shortDigest(digest)}</code>
        <CopyButton text={() => digest} label="Copy the digest of this plan" />
      </>
    )}
  </span>
)
const shortDigest = (digest: string) => {
  const [version, hash = ''] = digest.split('.')
  return `${version}.${hash.slice(0, 8)}…${hash.slice(-4)}`
}

function Changes({ plan, meanwhile, isOld }: { plan: Plan; meanwhile: Event[]; isOld: boolean }) {
  const rows = listRows(plan).map((row): Difference => {
    const [word, tone] = EFFECTS[row.effect]
    const theirs = meanwhile.flatMap(event => event.changes.map(one => ({ ...one, event })))
    const newer = theirs.find(({ path }) => path === row.path || path.startsWith(`${row.path}.`))
    return {
      path: row.secret ? `Variable ${row.path.replace('secrets.', '')}` : row.path,
      ...describeValues(row),
      aside: <Badge tone={tone}>{word}</Badge>,
      note: newer && (
        <>
          {describeMade(newer)} by {newer.event.actor.name ?? newer.event.actor.kind},{' '}
          <Ago time={newer.event.created_at} suffix=" ago" />
        </>
      ),
    }
  })
  if (rows.length === 0) return <p>The configuration does not change.</p>
  return (
    <div class={`${styles.table} ${isOld ? styles.old : ''}`}>
      <DiffTable caption="Changes of the plan" asideColumn="Effect" rows={rows} />
    </div>
  )
}

const describeMade = ({ path, after }: { path: string; after: unknown }): string =>
  path.startsWith('secrets') ? 'Set again' : after === null ? 'Removed' : `Now ${formatValue(after)}`

function describeValues({ path, before, after, secret }: PlanRow): Pick<Difference, 'before' | 'after'> {
  if (secret)
    return {
      before: secret === 'added' ? <OldValue value={null} /> : <span class={styles.hidden}>a hidden value</span>,
      after:
        secret === 'removed' ? (
          <NewValue value={null} />
        ) : (
          <span class={styles.hidden}>{secret === 'added' ? 'a value' : 'a new value'}, which is hidden</span>
        ),
    }
  const isCommit = path.endsWith('.repo_commit_sha')
  return {
    before: <OldValue value={before} />,
    after: <NewValue value={after} absent={isCommit ? 'resolved again' : before === null ? 'not set' : 'removed'} />,
  }
}

function Warnings({ plan, isRefused }: { plan: Plan; isRefused: boolean }) {
  if (plan.warnings.length === 0 && !isRefused) return null
  return (
    <ul class={styles.warnings}>
      {isRefused && (
        <li>
          <Glyph shape="octagon" tone="bad" />
          <span>
            <b>Some settings are fixed when the deployment is created.</b> Create a second deployment instead, and move
            the custom URL to it.
          </span>
        </li>
      )}
      {plan.warnings.map(warning => (
        <li key={warning}>
          <Glyph shape="triangle" tone="warn" />
          <Prose text={warning} />
        </li>
      ))}
    </ul>
  )
}

function Meanwhile({ events }: { events: Event[] }) {
  const made = events.filter(({ changes }) => changes.length > 0)
  return (
    <section class={styles.meanwhile} role="alert">
      <Glyph shape="triangle" tone="warn" />
      <div>
        <h3>The deployment changed after this plan was made</h3>
        {made.length === 0 && <p>Another change was applied.</p>}
        {made.map(({ id, actor, created_at, changes }) => (
          <p key={id}>
            <b>{actor.name ?? actor.kind}</b>{' '}
            {changes.slice(0, 4).map(({ path, after }, i) => (
              <span key={path}>
                {i > 0 && ', '}
                {after === null ? 'removed ' : 'set '}
                <code>{path}</code>
                {after !== null &&
                  !path.startsWith('secrets') &&
                  typeof after !== 'object' &&
                  ` to ${formatValue(after)}`}
              </span>
            ))}
            {changes.length > 4 && ` and ${changes.length - 4} more`}, <Ago time={created_at} suffix=" ago" />.
          </p>
        ))}
        <p>Plan again to see the current difference.</p>
      </div>
    </section>
  )
}

/** The request that Apply sends, as commands. */
function Commands({ request, digest }: { request: PlannedRequest; digest: string }) {
  const [kind, setKind] = useState<'slipway' | 'curl'>('slipway')
  const { request: shown, names } = leaveOutSecrets({ ...request, planDigest: digest })
  const text = kind === 'slipway' ? toCommand(shown) : toCurl(shown, location.origin, workspaceId.value)
  return (
    <section class={styles.commands} aria-label="As a command">
      <header>
        {(['slipway', 'curl'] as const).map(one => (
          <Chip key={one} pressed={kind === one} onPress={() => setKind(one)}>
            {one}
          </Chip>
        ))}
        <CopyButton text={() => text}>Copy</CopyButton>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the focus for its keys */}
      <pre tabIndex={0}>{text}</pre>
      {names.length > 0 && (
        <p>
          Values of secrets are omitted. Write {names.length === 1 ? 'it' : 'them'} in place of{' '}
          <code>{`<value of ${names[0]}>`}</code>
          {names.length > 1 && ` and ${names.length - 1} more`} to apply this plan.
        </p>
      )}
    </section>
  )
}
