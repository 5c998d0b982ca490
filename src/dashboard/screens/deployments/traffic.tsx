// The shares of two revisions of a deployment, and of later ones. They take effect at once, without a revision.
import { useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import { explainMissingHere } from '../../api/permissions.ts'
import { type Deployment, isInFlight, type Revision } from '../../format/state.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { Fields, SelectField, TextField, unlessChanged } from '../../parts/form.tsx'
import { Prose } from '../../parts/prose.tsx'
import { interrupt } from './actions.ts'
import { RolloutPolicy, RolloutProgress } from './rollout.tsx'
import styles from './settings.module.css'

export type TrafficProps = { deployment: Deployment; revisions: Revision[]; hasSettings?: boolean }
type Body = Pick<Deployment['traffic'][number], 'revision_id' | 'share' | 'name'>[]

const STARTS = [100, 0, 1, 5, 10, 25, 50]
const isShare = (text: string) => /^\d{1,3}$/.test(text) && Number(text) <= 100

export default function TrafficCard({ deployment, revisions, hasSettings = false }: TrafficProps) {
  const { traffic, traffic_settings, rollout, rollout_progress, name } = deployment
  const [active, beside] = traffic
  const [share, setShare] = useState(beside ? String(beside.share) : '')
  const [startsAt, setStartsAt] = useState(traffic_settings.starts_at)
  const [sticky, setSticky] = useState(traffic_settings.sticky)
  const unavailable = explainMissingHere('deployments:update')
  const nameOf = (id: string) => `r${revisions.find(one => one.id === id)?.number ?? `… ${id.slice(0, 8)}`}`
  const put = (label: string, shares: Body, done: string, settings = traffic_settings): Action => ({
    label,
    request: request('PUT /v2/deployments/{deployment_id}/traffic', {
      params: { deployment_id: deployment.id },
      body: { shares, ...settings },
    }),
    unavailable,
    done: `${name}: ${done}`,
  })
  const kept =
    beside || active?.name ? traffic.map(({ revision_id, share, name }) => ({ revision_id, share, name })) : []
  const inFlight = revisions.find(one => one.id === beside?.revision_id && isInFlight(one))
  const split = (own: number): Body => [
    ...(own < 100 ? [{ revision_id: active!.revision_id, share: 100 - own, name: active!.name }] : []),
    { revision_id: beside!.revision_id, share: own, name: beside!.name },
  ]
  return (
    <Card title="Traffic">
      <p class={styles.about}>
        {beside ? 'Two revisions serve. Workers, schedules and jobs run in the first.' : 'Takes effect within seconds.'}
      </p>
      {beside && (
        <>
          <ul class={styles.tags}>
            {traffic.map(({ revision_id, share, applied, problem, url }) => (
              <li key={revision_id}>
                <span>
                  {nameOf(revision_id)}: <b>{share} %</b> {url && <a href={url}>{url.replace(/^https?:\/\//, '')}</a>}{' '}
                  {problem ? <Prose text={problem} /> : applied ? '' : 'Not applied yet'}
                </span>
              </li>
            ))}
          </ul>
          {rollout_progress && <RolloutProgress deployment={deployment} progress={rollout_progress} />}
        </>
      )}
      {beside && !rollout_progress && (
        <>
          <Fields>
            <TextField
              label={`Share of ${nameOf(beside.revision_id)}`}
              value={share}
              onChange={setShare}
              inputMode="numeric"
              unit="%"
              fault={isShare(share) ? undefined : 'Whole percents from 0 to 100.'}
              isChanged={share !== String(beside.share)}
              unavailable={unavailable}
            />
          </Fields>
          <p class={styles.tagAction}>
            <ActionButton
              small
              action={{
                ...put('Apply share', isShare(share) ? split(Number(share)) : kept, 'the share is set.'),
                unavailable:
                  unavailable ?? (isShare(share) ? unlessChanged(share !== String(beside.share)) : 'No share.'),
              }}
            />
            {inFlight && <ActionButton small action={put('Give it all', split(100), 'it gets all requests.')} />}
            {inFlight ? (
              <ActionButton small action={{ ...interrupt(deployment, inFlight), label: 'Send all back' }} />
            ) : (
              <ActionButton small action={put('Send all back', [], 'one revision gets all requests.')} />
            )}
          </p>
        </>
      )}
      {hasSettings && (
        <>
          <Fields>
            {!rollout && (
              <SelectField
                label="New revisions start with"
                value={String(startsAt)}
                options={[...new Set([...STARTS, traffic_settings.starts_at])].map(one => ({
                  value: String(one),
                  label: one === 100 ? 'All requests' : `${one} %`,
                }))}
                onChange={value => setStartsAt(Number(value))}
                isChanged={startsAt !== traffic_settings.starts_at}
                unavailable={unavailable}
              />
            )}
            <SelectField
              label="The same client"
              value={sticky?.by ?? 'none'}
              options={[
                { value: 'none', label: 'Is drawn with each request' },
                { value: 'cookie', label: 'Stays with its revision, by a cookie' },
                ...(traffic_settings.sticky?.by === 'header'
                  ? [{ value: 'header', label: `Stays by the header ${traffic_settings.sticky.header}` }]
                  : []),
              ]}
              onChange={by =>
                setSticky(by === 'none' ? null : by === 'cookie' ? { by: 'cookie' } : traffic_settings.sticky)
              }
              isChanged={sticky?.by !== traffic_settings.sticky?.by}
              unavailable={unavailable}
            />
          </Fields>
          <p class={styles.tagAction}>
            <ActionButton
              small
              action={{
                ...put('Apply traffic', kept, 'later revisions start so.', { starts_at: startsAt, sticky }),
                unavailable:
                  unavailable ??
                  unlessChanged(startsAt !== traffic_settings.starts_at || sticky?.by !== traffic_settings.sticky?.by),
              }}
            />
          </p>
          <RolloutPolicy deployment={deployment} />
        </>
      )}
    </Card>
  )
}
