// The logs of a deployment: followed as lines arrive, filtered and searched by its address, with a link to each line.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { sessionEnded } from '../../api/client.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { formatClock, formatSeconds, formatShort } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { now } from '../../parts/time.tsx'
import { toast } from '../../parts/toast.ts'
import { toAddress } from '../../router/links.tsx'
import { type Block, countLevels, countLines, findMatches } from './blocks.ts'
import { FailedBuild, hasFailed } from './failed-build.tsx'
import { hasFilters, type ShownLog, selectLine, useShownLog } from './filters.ts'
import type { Names } from './log-lines.tsx'
import { LogView } from './log-view.tsx'
import styles from './logs.module.css'
import type { NoLinesProps } from './no-lines.tsx'
import { isUtc, wraps } from './preferences.ts'
import { LogReader } from './reader.ts'
import { Timeline } from './timeline.tsx'
import { FromChoice, KindChoice, LevelChoice, ProcessChoice, RevisionChoice, Search, Switches } from './toolbar.tsx'

const NoLines = lazily<NoLinesProps>(() => import('./no-lines.tsx'))

const LISTED_REVISIONS = 50

export function Logs({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const { data } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', {
    params: { deployment_id: deployment.id },
    query: { limit: LISTED_REVISIONS },
  })
  const revisions = data?.resources
  const shown = useShownLog()
  const names = useNames(revisions)
  const reader = useReader(deployment.id, shown)
  const { blocks, phase, error, hasNewer } = reader.state.value
  const [isExplained, setExplained] = useState(shown.line === undefined)
  const failed = findFailed(revisions, shown)
  const [isFollowing, setFollowing] = useState(shown.line === undefined)
  reader.isAtEnd = isFollowing
  const unseen = useUnseen(blocks, isFollowing)
  const matches = useMemo(() => findMatches(blocks, shown.find), [blocks, shown.find])
  const counts = useMemo(() => countLevels(blocks), [blocks])

  const toEnd = () => {
    selectLine(undefined)
    if (hasNewer) void reader.open()
    setFollowing(true)
  }
  const follow = (on: boolean) => (on ? toEnd() : setFollowing(false))
  const select = (arrival: number) => {
    setFollowing(false)
    selectLine(arrival || undefined)
  }
  const moveTo = (among: number[], step: 1 | -1) => {
    const next = nextOf(among, shown.line, step)
    if (next !== undefined) select(next)
  }
  const ofLevels = () => blocks.flatMap(block => block.filter(isError).map(({ arrival }) => arrival))
  const all = () => blocks.flatMap(block => block.map(({ arrival }) => arrival))
  useLogKeys({
    moveToMatch: step => moveTo(matches, step),
    moveToError: step => moveTo(ofLevels(), step),
    moveToLine: step => moveTo(all(), step),
    toEnd,
    toggleFollow: () => follow(!isFollowing),
  })

  const count = countLines(blocks)
  return (
    <section class={styles.page} aria-label="Logs">
      {failed && isExplained && (
        <FailedBuild
          workspace={workspace}
          deployment={deployment}
          revision={failed}
          revisions={revisions ?? []}
          onHide={() => setExplained(false)}
        />
      )}
      <div class={styles.bar}>
        <Search
          find={shown.find}
          place={matches.indexOf(shown.line ?? 0) + 1}
          count={matches.length}
          onMove={step => moveTo(matches, step)}
        />
        <KindChoice kind={shown.kind} />
        <RevisionChoice revision={shown.revision} revisions={revisions ?? []} active={deployment.active_revision_id} />
        <ProcessChoice process={shown.process} processes={deployment.health?.processes.map(({ name }) => name) ?? []} />
        <Download deployment={deployment} shown={shown} names={names} />
        <ButtonLink href={toAddress(`/deployments/${deployment.id}/logs/archive`)} icon="archive" aria-label="Archive">
          <span class={styles.wide}>Archive</span>
        </ButtonLink>
      </div>
      <div class={styles.bar}>
        <LevelChoice level={shown.level} counts={counts} />
        <FromChoice from={shown.from} />
        <Switches
          find={shown.find}
          isOnlyFound={shown.isOnlyFound}
          isFollowing={isFollowing && !hasNewer}
          onFollow={follow}
        />
      </div>
      <div class={styles.frame}>
        <Timeline blocks={blocks} utc={isUtc.value} onSelect={select} />
        {phase === 'loading' ? (
          <Skeleton lines={12} height={20} />
        ) : (
          <LogView
            reader={reader}
            shown={shown}
            names={names}
            matches={matches}
            isFollowing={isFollowing}
            onFollow={setFollowing}
            onSelect={select}
            end={
              error ? (
                <Problem error={error} onRetry={() => void reader.open(shown.line)} />
              ) : count === 0 ? (
                <NoLines
                  name={deployment.name}
                  isFiltered={hasFilters(shown) || Boolean(shown.kind || shown.revision)}
                />
              ) : (
                !hasNewer && <Quiet blocks={blocks} />
              )
            }
          />
        )}
        {(unseen > 0 || hasNewer) && (
          <button type="button" class={styles.jump} onClick={toEnd}>
            {hasNewer ? 'To the newest line' : `${unseen.toLocaleString()} new ${unseen === 1 ? 'line' : 'lines'}`}
            <kbd>End</kbd>
          </button>
        )}
      </div>
      <p class={styles.foot} id="log-state">
        <span role="status">{PHASE_WORDS[phase]}</span>
        <span>
          {count.toLocaleString()} {count === 1 ? 'line' : 'lines'} read
        </span>
        {shown.line !== undefined && count > 0 && !has(blocks, shown.line) && (
          <span>The linked line is not available. It is no longer kept, or the filters exclude it.</span>
        )}
      </p>
    </section>
  )
}

/** One reader per set of filters. It stops while the page is hidden or the session has ended. */
function useReader(deployment_id: string, { filters, line }: ShownLog): LogReader {
  const key = JSON.stringify([deployment_id, filters])
  const reader = useMemo(() => new LogReader(deployment_id, filters), [key])
  const isOut = sessionEnded.value
  useEffect(() => {
    void reader.open(line)
    const onVisibility = () => (document.hidden ? reader.pause() : reader.resume())
    document.addEventListener('visibilitychange', onVisibility)
    return () => {
      document.removeEventListener('visibilitychange', onVisibility)
      reader.close()
    }
  }, [reader])
  useEffect(() => {
    const { phase, blocks } = reader.state.peek()
    if (line !== undefined && phase !== 'loading' && !has(blocks, line)) void reader.open(line)
  }, [line])
  useEffect(() => {
    if (isOut) reader.pause()
    else if (reader.state.peek().phase === 'ended') void reader.open(line)
    else reader.resume()
  }, [isOut])
  return reader
}

const has = (blocks: Block[], arrival: number): boolean =>
  blocks.some(
    block =>
      block[0]!.arrival <= arrival && arrival <= block.at(-1)!.arrival && block.some(line => line.arrival === arrival),
  )
const isError = ({ level }: Block[number]): boolean => level === 'ERROR' || level === 'CRITICAL'

/** The next or previous match from the selected line, wrapping around. */
function nextOf(arrivals: number[], from: number | undefined, step: 1 | -1): number | undefined {
  if (step === 1) return arrivals.find(one => one > (from ?? Number.POSITIVE_INFINITY)) ?? arrivals[0]
  return arrivals.findLast(one => one < (from ?? Number.POSITIVE_INFINITY)) ?? arrivals.at(-1)
}

/** The revision that is shown, or else the latest. */
function findFailed(revisions: Revision[] | undefined, { revision, kind }: ShownLog): Revision | undefined {
  const found = revision ? revisions?.find(({ id }) => id === revision) : revisions?.[0]
  return found && hasFailed(found) && (revision || kind !== 'deploy') ? found : undefined
}

function useNames(revisions: Revision[] | undefined): Names {
  const text = JSON.stringify(revisions?.map(one => [one.id, one.number, describeBuild(one)]) ?? [])
  return useMemo(() => {
    const entries = JSON.parse(text) as [string, number, string][]
    return new Map(entries.map(([id, number, build]) => [id, { number, build }]))
  }, [text])
}

function describeBuild(revision: Revision): string {
  const seconds = revision.states.find(({ status }) => status === 'BUILDING')?.seconds
  if (revision.status === 'BUILDING') return 'is running'
  if (seconds == null) return ''
  return `${revision.status === 'BUILD_FAILED' ? 'failed after' : 'took'} ${formatSeconds(seconds)}`
}

/** Counts the lines that have arrived since a person scrolled away from the end. */
function useUnseen(blocks: Block[], isFollowing: boolean): number {
  const newest = blocks.at(-1)?.at(-1)?.arrival ?? 0
  const [seen, setSeen] = useState(newest)
  useEffect(() => {
    if (isFollowing || seen === 0) setSeen(newest)
  }, [isFollowing, newest])
  if (isFollowing || seen === 0) return 0
  let count = 0
  for (const block of blocks.toReversed()) {
    const first = block.findIndex(({ arrival }) => arrival > seen)
    if (first === -1) break
    count += block.length - first
    if (first > 0) break
  }
  return count
}

type LogKeys = {
  moveToMatch: (step: 1 | -1) => void
  moveToError: (step: 1 | -1) => void
  moveToLine: (step: 1 | -1) => void
  toEnd: () => void
  toggleFollow: () => void
}

/** The commands are registered once, and call the functions of the last render. */
function useLogKeys(latest: LogKeys): void {
  const keys = useRef(latest)
  keys.current = latest
  const act = (id: string, label: string, key: string, run: () => void) => ({
    id: `log-${id}`,
    label,
    kind: 'action',
    keys: key,
    run,
  })
  useCommands([
    act('match', 'Next match in the log', 'n', () => keys.current.moveToMatch(1)),
    act('match-back', 'Previous match in the log', 'N', () => keys.current.moveToMatch(-1)),
    act('error', 'Next error in the log', 'x', () => keys.current.moveToError(1)),
    act('error-back', 'Previous error in the log', 'X', () => keys.current.moveToError(-1)),
    act('line', 'Next line of the log', 'j', () => keys.current.moveToLine(1)),
    act('line-back', 'Previous line of the log', 'k', () => keys.current.moveToLine(-1)),
    act('end', 'Newest line of the log', 'End', () => keys.current.toEnd()),
    act('follow', 'Toggle following the log', 'f', () => keys.current.toggleFollow()),
    act('wrap', 'Toggle line wrapping', 'w', () => {
      wraps.value = !wraps.value
    }),
    act('link', 'Copy link to the selected line', 'y', () => void copyLink()),
  ])
}

async function copyLink(): Promise<void> {
  await navigator.clipboard.writeText(location.href)
  toast('ok', 'The link is copied.')
}

type DownloadProps = { deployment: Deployment; shown: ShownLog; names: Names }
function Download({ deployment, shown, names }: DownloadProps) {
  const [lines, setLines] = useState<number>()
  async function download(): Promise<void> {
    setLines(0)
    try {
      const { saveLog } = await import('./download.ts')
      await saveLog({ deployment, shown, names, onProgress: setLines })
    } catch (error) {
      toast('bad', 'Download the log: failed', (error as Error).message)
    }
    setLines(undefined)
  }
  const scope = hasFilters(shown) ? 'All lines that match the filters' : 'The whole log'
  return (
    <Button
      icon="get"
      busy={lines !== undefined}
      aria-label="Download"
      title={`${scope}, as text`}
      onClick={() => void download()}
    >
      {lines ? <span>{lines.toLocaleString()} lines</span> : <span class={styles.wide}>Download</span>}
    </Button>
  )
}

const QUIET_MS = 60_000

function Quiet({ blocks }: { blocks: Block[] }) {
  const at = blocks.at(-1)?.at(-1)?.at
  if (at === undefined || now.value - at < QUIET_MS) return null
  const isToday = new Date(at).toDateString() === new Date(now.value).toDateString()
  return <p class={styles.quiet}>No lines since {isToday ? formatClock(at) : formatShort(at)}</p>
}

const PHASE_WORDS = {
  loading: 'Reading',
  reading: 'Reading',
  live: 'Following',
  reconnecting: 'Reconnecting',
  paused: 'Paused while the tab is hidden',
  ended: 'Not following',
} as const
