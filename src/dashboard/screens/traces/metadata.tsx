// The metadata, tags, events and `extra` of a run.
import type { Run } from '../../api/runs.ts'
import { formatLatency } from '../../format/amount.ts'
import { Card } from '../../parts/card.tsx'
import { Body, type Fact, Facts } from '../../parts/sections.tsx'
import { Link } from '../../router/links.tsx'
import { JsonView, LongText } from './json-view.tsx'
import { metadataOf } from './metadata-of.ts'
import { latencyOf } from './run-state.ts'
import styles from './trace.module.css'

const isShort = (value: unknown): value is string | number | boolean =>
  typeof value === 'number' || typeof value === 'boolean' || (typeof value === 'string' && value.length < 300)

/** A filter of the runs of its project. */
const filterLink = (project: string, condition: string) =>
  `/traces/${project}?${new URLSearchParams({ q: condition, scope: 'all' })}`
const quoted = (text: string) => (/[\s"]/.test(text) ? `"${text.replaceAll('"', '')}"` : text)

export default function Metadata({ run }: { run: Run }) {
  const metadata = Object.entries(metadataOf(run)).filter(([, value]) => value !== null)
  const { metadata: _, ...extra } = (run.extra ?? {}) as Record<string, unknown>
  return (
    <>
      {run.tags && run.tags.length > 0 && (
        <Card title="Tags">
          <Body>
            <p class={styles.tags}>
              {run.tags.map(tag => (
                <Link
                  key={tag}
                  to={filterLink(run.session_id, `tag:${quoted(tag)}`)}
                  title="Show all runs with this tag"
                >
                  {tag}
                </Link>
              ))}
            </p>
          </Body>
        </Card>
      )}
      <Card title="Metadata">
        <Body>
          {metadata.length === 0 ? (
            <p>No metadata.</p>
          ) : (
            <Facts
              facts={metadata.map(
                ([name, value]): Fact => [
                  name,
                  isShort(value) ? (
                    <Link
                      to={filterLink(run.session_id, `meta:${quoted(`${name}=${value}`)}`)}
                      title="Show all runs with this value"
                    >
                      {String(value)}
                    </Link>
                  ) : typeof value === 'string' ? (
                    <LongText text={value} />
                  ) : (
                    <JsonView value={value} />
                  ),
                ],
              )}
            />
          )}
        </Body>
      </Card>
      <Events run={run} />
      <Card title="About this run">
        <Body>
          <Facts
            facts={[
              ['Run', <code>{run.id}</code>],
              ['Parent', run.parent_run_id && <code>{run.parent_run_id}</code>],
              [
                'Thread',
                run.thread_id && (
                  <Link to={filterLink(run.session_id, `thread:${quoted(run.thread_id)}`)}>{run.thread_id}</Link>
                ),
              ],
              ['Kept', run.ttl_seconds && `${Math.round(run.ttl_seconds / 86_400)} days`],
              ['Order', <code>{run.dotted_order}</code>],
            ]}
          />
        </Body>
      </Card>
      {Object.keys(extra).length > 0 && (
        <Card title="Extra">
          <Body>
            <JsonView value={extra} />
          </Body>
        </Card>
      )}
    </>
  )
}

type Event = { name?: unknown; time?: unknown }

function Events({ run }: { run: Run }) {
  const events = Array.isArray(run.events) ? (run.events as Event[]) : []
  if (events.length === 0) return null
  return (
    <Card title="Events" aside={`${events.length}`}>
      <Body>
        <ol class={styles.events}>
          {events.slice(0, 200).map((event, i) => {
            const { name, time, ...rest } = event ?? {}
            const after =
              typeof time === 'string' ? latencyOf({ start_time: run.start_time, end_time: time }) : undefined
            return (
              <li key={i}>
                <time>{after === undefined ? '–' : `+${formatLatency(after)}`}</time>
                <b>{typeof name === 'string' ? name : 'event'}</b>
                {Object.keys(rest).length > 0 && <JsonView value={rest} />}
              </li>
            )
          })}
        </ol>
        {events.length > 200 && <p>The first 200 are shown.</p>}
      </Body>
    </Card>
  )
}
