// One run: what went in and came out, what was said of it, and everything else that was sent about it.
import { useEffect, useState } from 'preact/hooks'
import { useRead } from '../../api/queries.ts'
import type { Run } from '../../api/runs.ts'
import { formatCost, formatCount, formatLatency } from '../../format/amount.ts'
import { formatExact } from '../../format/time.ts'
import { lazily } from '../../parts/lazily.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { setFilters, useFilter } from '../../router/links.tsx'
import { metadataOf } from './metadata-of.ts'
import { Payload } from './payload.tsx'
import { RunActions, SharedLink } from './run-actions.tsx'
import { Attachments, ErrorText } from './run-extras.tsx'
import { latencyOf, stateOfRun, TYPE_WORDS } from './run-state.ts'
import { TypeIcon } from './run-type.tsx'
import styles from './trace.module.css'

const Metadata = lazily(() => import('./metadata.tsx'), <Skeleton lines={4} />)
const RunFeedback = lazily(() => import('./run-feedback.tsx'), <Skeleton lines={4} />)

/** Moving through the tree reads only where it stops. */
const SETTLE_MS = 120
const RUNNING_MS = 3_000

type DetailProps = { workspace: string; run: Run; isRoot: boolean }

export function RunDetail({ workspace, run, isRoot }: DetailProps) {
  const id = useSettled(run.id)
  const { data, error, refetch } = useRead(
    workspace,
    'GET /runs/{run_id}',
    {
      params: { run_id: id },
      query: {
        exclude_s3_stored_attributes: true,
        session_id: run.session_id,
        ...(id === run.id && run.start_time && { start_time: run.start_time }),
      },
    },
    { everyMs: last => (last?.status === 'pending' ? RUNNING_MS : false) },
  )
  const whole = data?.id === run.id ? data : undefined
  return (
    <section aria-label={`Run ${run.name}`}>
      <header class={styles.head}>
        <div class={styles.title}>
          <TypeIcon type={run.run_type} />
          <h2>{run.name}</h2>
          <StateLabel state={stateOfRun(whole ?? run)} />
        </div>
        <RunActions
          workspace={workspace}
          run={run}
          isShared={Boolean(whole?.share_token)}
          onChanged={() => void refetch()}
        />
        <RunFacts run={whole ?? run} isRoot={isRoot} />
      </header>
      {whole?.share_token && <SharedLink run={run} token={whole.share_token} onChanged={() => void refetch()} />}
      {error && !whole && <Problem error={error} onRetry={() => void refetch()} />}
      {!whole && !error && <Skeleton lines={6} />}
      {whole && <Views workspace={workspace} run={whole} />}
    </section>
  )
}

function useSettled(id: string): string {
  const [settled, setSettled] = useState(id)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(id), SETTLE_MS)
    return () => clearTimeout(timer)
  }, [id])
  return settled
}

function RunFacts({ run, isRoot }: { run: Run; isRoot: boolean }) {
  const { run_type, start_time, first_token_time, prompt_tokens, completion_tokens, total_tokens, total_cost } = run
  const latency = latencyOf(run)
  const first = first_token_time && latencyOf({ start_time, end_time: first_token_time })
  const model = readModel(run)
  return (
    <ul class={styles.facts}>
      <li>{TYPE_WORDS[run_type]}</li>
      {model && (
        <li>
          <code>{model}</code>
        </li>
      )}
      {latency !== undefined && (
        <li>
          Took <b>{formatLatency(latency)}</b>
        </li>
      )}
      {typeof first === 'number' && (
        <li>
          First token after <b>{formatLatency(first)}</b>
        </li>
      )}
      {Boolean(total_tokens) && (
        <li>
          <b>{formatCount(total_tokens ?? 0)}</b> tokens
          {isRoot && ' of all runs'}
          {Boolean(prompt_tokens || completion_tokens) &&
            ` (${formatCount(prompt_tokens ?? 0)} in, ${formatCount(completion_tokens ?? 0)} out)`}
        </li>
      )}
      {Number(total_cost) > 0 && (
        <li>
          <b>{formatCost(total_cost ?? 0)}</b>
        </li>
      )}
      {start_time && (
        <li>
          <time dateTime={start_time}>{formatExact(start_time)}</time>
        </li>
      )}
    </ul>
  )
}

function readModel(run: Run): string | undefined {
  const { ls_model_name } = metadataOf(run)
  return typeof ls_model_name === 'string' ? ls_model_name : undefined
}

function Views({ workspace, run }: { workspace: string; run: Run }) {
  const [name] = useFilter('view')
  const said = Object.values(run.feedback_stats ?? {}).reduce((sum, { n }) => sum + n, 0)
  const views = [
    { name: '', label: 'Input and output' },
    { name: 'feedback', label: said > 0 ? `Feedback ${said}` : 'Feedback' },
    { name: 'metadata', label: 'Metadata' },
  ]
  const view = views.find(one => one.name === name) ?? views[0]!
  const select = (place: number) => {
    const next = views[(place + views.length) % views.length]!
    setFilters({ view: next.name })
    document.getElementById(`view-${next.name}`)?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    select(views.indexOf(view) + step)
  }
  return (
    <>
      <div class={styles.tabs} role="tablist" aria-label="Of this run" onKeyDown={onKeyDown}>
        {views.map((one, place) => (
          <button
            key={one.name}
            id={`view-${one.name}`}
            type="button"
            role="tab"
            aria-selected={one === view}
            aria-controls="view"
            tabIndex={one === view ? 0 : -1}
            onClick={() => select(place)}
          >
            {one.label}
          </button>
        ))}
      </div>
      <div id="view" role="tabpanel" aria-labelledby={`view-${view.name}`} class={styles.stack}>
        {view.name === '' && <InputAndOutput key={run.id} run={run} />}
        {view.name === 'feedback' && <RunFeedback key={run.id} workspace={workspace} run={run} />}
        {view.name === 'metadata' && <Metadata run={run} />}
      </div>
    </>
  )
}

const InputAndOutput = ({ run }: { run: Run }) => (
  <>
    {run.error && <ErrorText error={run.error} />}
    <Payload title="Input" value={run.inputs} stored={run.inputs_s3_urls?.ROOT} nothing="No input." />
    <Payload
      title="Output"
      value={run.outputs}
      stored={run.outputs_s3_urls?.ROOT}
      nothing={
        run.status === 'pending'
          ? 'Still running.'
          : run.status === 'error'
            ? 'Failed without an output.'
            : 'No output.'
      }
    />
    {run.s3_urls && <Attachments urls={run.s3_urls} />}
  </>
)
