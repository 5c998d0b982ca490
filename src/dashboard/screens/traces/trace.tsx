// A trace: the tree of its runs beside the run that is selected in the address.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useRead } from '../../api/queries.ts'
import { formatCost, formatCount, formatLatency, plural } from '../../format/amount.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Glyph, Icon } from '../../parts/icon.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Foot } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { deleteTrace } from './actions.ts'
import { RunDetail } from './run-detail.tsx'
import { FindRun } from './run-place.tsx'
import { latencyOf, stateOfRun } from './run-state.ts'
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
  if (!root)
    return isDone ? (
      <FindRun workspace={workspace} id={params.trace} project={params.project} />
    ) : (
      <Skeleton lines={9} />
    )
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
              Duration <b>{formatLatency(latency)}</b>
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
