// A trace: the tree of its runs beside the run that is selected in the address.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { formatCost, formatCount, formatLatency, plural } from '../../format/amount.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { Foot, PageHead } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screens.tsx'
import { deleteTrace } from './actions.ts'
import { RunDetail } from './run-detail.tsx'
import { latencyOf, stateOfRun } from './run-state.ts'
import { runPath } from './run-table.tsx'
import styles from './trace.module.css'
import { TraceTree } from './trace-tree.tsx'
import { buildTree, countFailed } from './tree.ts'
import { useTrace } from './use-trace.ts'

type Params = { project: string; trace: string }

export default function TracePage({ workspace, params }: ScreenProps<Params>) {
  const { runs, isDone, error, readAgain } = useTrace(params.trace)
  const [, navigate] = useLocation()
  const { data: project } = useRead(workspace, 'GET /sessions/{session_id}', {
    params: { session_id: params.project },
  })
  const nodes = useMemo(() => buildTree(runs), [runs])
  const root = nodes[0]?.run
  useCrumbs(
    { label: 'Traces', to: '/traces' },
    { label: project?.name ?? '…', to: `/traces/${params.project}` },
    { label: root?.name ?? '…' },
  )
  const [runId] = useFilter('run')
  const [selected, setSelected] = useState(runId)
  useEffect(() => setSelected(runId), [runId])
  const shown = nodes.find(({ run }) => run.id === selected)?.run ?? root
  const detail = useRef<HTMLDivElement>(null)
  const select = (id: string, isFinal: boolean) => {
    setSelected(id)
    setFilters({ run: id === root?.id ? '' : id })
    if (!isFinal || !matchMedia('(max-width: 67.5rem)').matches) return
    detail.current?.scrollIntoView({ block: 'start' })
    detail.current?.focus({ preventScroll: true })
  }
  if (error && !root) return <Problem error={error} onRetry={readAgain} />
  if (!root) return isDone ? <NotRoot workspace={workspace} {...params} /> : <Skeleton lines={9} />
  const failed = countFailed(nodes)
  const latency = latencyOf(root)
  return (
    <>
      <PageHead
        title={root.name}
        state={<StateLabel state={stateOfRun(root)} large />}
        meta={[
          root.start_time && (
            <>
              <Icon name="clock" />
              <Ago time={root.start_time} suffix=" ago" />
            </>
          ),
          latency !== undefined && (
            <span>
              Took <b>{formatLatency(latency)}</b>
            </span>
          ),
          <span>
            <b>{formatCount(nodes.length)}</b> {nodes.length === 1 ? 'run' : 'runs'}
          </span>,
          failed > 0 && (
            <span class={styles.failed}>
              <Glyph shape="octagon" tone="bad" />
              {plural(failed, 'run failed', 'runs failed')}
            </span>
          ),
          Boolean(root.total_tokens) && (
            <span>
              <b>{formatCount(root.total_tokens ?? 0)}</b> tokens
              {Number(root.total_cost) > 0 && (
                <>
                  , <b>{formatCost(root.total_cost ?? 0)}</b>
                </>
              )}
            </span>
          ),
        ]}
      />
      {error && <Problem error={error} onRetry={readAgain} />}
      <div class={styles.columns}>
        <TraceTree nodes={nodes} isDone={isDone} selected={shown?.id ?? ''} onSelect={select} />
        <div class={styles.detail} ref={detail} tabIndex={-1}>
          <p class={styles.back}>
            <Button small icon="up" onClick={() => scrollTo(0, 0)}>
              Back to the runs
            </Button>
          </p>
          {shown && <RunDetail workspace={workspace} run={shown} isRoot={shown.id === root.id} />}
        </div>
      </div>
      <Foot>
        <p>
          Trace <code>{root.trace_id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteTrace(root)}
          onDone={() => navigate(toAddress(`/traces/${params.project}`))}
        />
      </Foot>
    </>
  )
}

/** The id is that of a run within a trace, or there is no such run. */
function NotRoot({ workspace, project, trace }: Params & { workspace: string }) {
  const { data, error } = useRead(workspace, 'GET /runs/{run_id}', {
    params: { run_id: trace },
    query: { exclude_s3_stored_attributes: true, exclude_serialized: true },
  })
  const [, navigate] = useLocation()
  useEffect(() => {
    if (data && data.trace_id !== trace) navigate(toAddress(runPath(data)), { replace: true })
  }, [data])
  if (error && !isMissing(error)) return <Problem error={error} />
  if (!error) return <Skeleton lines={9} />
  return (
    <Empty
      title="This trace is gone"
      action={<ButtonLink href={toAddress(`/traces/${project}`)}>Open its project</ButtonLink>}
    >
      Traces are kept for 14 days, or for longer if their project or feedback says so. It may also be in another
      workspace, or not have arrived yet.
    </Empty>
  )
}
