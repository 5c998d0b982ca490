// An entry: a write with its changes, or a refused request.
import { flattenChanges } from '../../../client/changes.ts'
import type { AuditItem } from '../../api/audit-pages.ts'
import { formatExact } from '../../format/time.ts'
import { DiffTable, NewValue, OldValue } from '../../parts/diff.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { Facts } from '../../parts/sections.tsx'
import { Ago } from '../../parts/time.tsx'
import { describeUserAgent } from '../settings/user-agent.ts'
import styles from './audit.module.css'
import { describeActorOf, describeOperation, nameSubject } from './words.ts'

type EntryProps = { item: AuditItem; onActor: (id: string) => void; onSubject: (id: string) => void }

export function AuditEntry({ item, onActor, onSubject }: EntryProps) {
  const { unmapped, src_endpoint, time, http_request, http_response, api, status } = item
  const { original_audit_log: original, error_code, events } = unmapped
  const isDone = status === 'Success'
  const at = new Date(time).toISOString()
  const actorId = original.api_key_id ?? original.user_id ?? item.actor.user.uid
  const actor = describeActorOf(item)
  const hasActorId = /^[0-9a-f-]{36}$/.test(actorId)
  return (
    <details class={styles.item}>
      <summary data-row>
        <Glyph shape={isDone ? 'check' : 'octagon'} tone={isDone ? 'ok' : 'bad'} />
        <div>
          <p>
            <b>{describeOperation(api.operation)}</b> {nameSubject(item)}
          </p>
          <p class={styles.detail}>{isDone ? `Done` : `Refused: ${error_code ?? http_response.code}`}</p>
        </div>
        <div>
          <p>{actor}</p>
          <p class={styles.detail}>{KINDS[unmapped.actor_kind] ?? unmapped.actor_kind}</p>
        </div>
        <div>
          <p>{src_endpoint.ip || 'No address'}</p>
          <p class={styles.detail} title={unmapped.user_agent ?? undefined}>
            {unmapped.user_agent ? describeUserAgent(unmapped.user_agent) : 'No user agent'}
          </p>
        </div>
        <div class={styles.age}>
          <Ago time={at} />
        </div>
      </summary>
      <div class={styles.inside}>
        {events.map(event => (
          <section key={event.number} class={styles.event}>
            <h3>
              {event.type}
              <span>
                #{event.number} about{' '}
                <button type="button" class={styles.link} onClick={() => onSubject(event.subject_id)}>
                  {event.subject_id}
                </button>
              </span>
            </h3>
            {event.changes && event.changes.length > 0 ? (
              <DiffTable
                caption={`Changes of ${event.type}`}
                columns={['Before', 'After']}
                rows={flattenChanges(event.changes as { path: string; before: unknown; after: unknown }[]).map(
                  ({ path, before, after }) => ({
                    path,
                    before: <OldValue value={before} />,
                    after: <NewValue value={after} />,
                  }),
                )}
              />
            ) : (
              <p>{Object.keys(event.data).length > 0 ? JSON.stringify(event.data) : 'No changes.'}</p>
            )}
          </section>
        ))}
        <Facts
          facts={[
            ['When', formatExact(time)],
            [
              'By',
              hasActorId ? (
                <>
                  {actor}
                  <button type="button" class={styles.link} onClick={() => onActor(actorId)}>
                    {actorId}
                  </button>
                </>
              ) : (
                actor
              ),
            ],
            [
              'Request',
              http_request.http_method && (
                <code key="path">{`${http_request.http_method} ${http_request.url.path}`}</code>
              ),
            ],
            ['Answer', http_response.code > 0 && `${http_response.code}${error_code ? ` ${error_code}` : ''}`],
            ['From', src_endpoint.ip],
            ['User agent', unmapped.user_agent],
            ['Request id', <code key="id">{unmapped.request_id}</code>],
            [
              'Omitted',
              unmapped.attempts_left_out > 0 && `${unmapped.attempts_left_out} more like this in the same minute`,
            ],
          ]}
        />
      </div>
    </details>
  )
}

const KINDS: Record<string, string> = {
  key: 'API key',
  session: 'Member',
  listener: 'Listener',
  push: 'Push',
  cron: 'Schedule',
  operator: 'Operator',
}
