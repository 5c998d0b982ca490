// Two revisions of a deployment beside each other: configuration, names of secrets, commits, build, image and errors.
// Both are in the address.

import { flattenChanges } from '../../../client/changes.ts'
import type { Item, Reply } from '../../../client/client.ts'
import { useRead } from '../../api/queries.ts'
import { describeReasons } from '../../format/reasons.ts'
import { shortCommit } from '../../format/source.ts'
import { type Deployment, stateOfRevision } from '../../format/state.ts'
import { formatSeconds } from '../../format/time.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { DiffTable, NewValue, OldValue } from '../../parts/diff.tsx'
import { SelectField } from '../../parts/form.tsx'
import { CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, setFilters, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { deployCommandOf } from './actions.ts'
import styles from './compare.module.css'
import { DeploymentFrame } from './frame.tsx'
import { useRevision } from './revision-number.ts'

type Revision = Item<'GET /v2/deployments/{deployment_id}/revisions'>
type Comparison = Reply<'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}'>
type Compared = Comparison['before']

const SHOWN = 100

export default function ComparePage({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="" page="Compare revisions">
      {deployment => <Compare workspace={workspace} deployment={deployment} />}
    </DeploymentFrame>
  )
}

function Compare({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const [from] = useFilter('from')
  const [to] = useFilter('to')
  const ref = { deployment_id: deployment.id }
  const { data, error } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/revisions', {
    params: ref,
    query: { limit: SHOWN },
  })
  if (error && !data) return <Problem error={error} />
  if (!data) return <Skeleton lines={6} />
  const revisions = data.resources
  const [latest] = revisions
  const command = deployCommandOf(deployment)
  if (revisions.length < 2)
    return (
      <Empty title="Not enough revisions to compare" {...(command && { command })}>
        Each deploy, and each change that does not take effect in place, creates a revision.
      </Empty>
    )
  const serving = revisions.find(({ id }) => id === deployment.active_revision_id)
  // A revision by its number or its id: explanations of the API have ids.
  const numberOf = (text: string) => revisions.find(({ id }) => id === text)?.number ?? Number(text)
  const after = numberOf(to) || latest!.number
  const before = numberOf(from) || (serving && serving.number !== after ? serving.number : after - 1)
  const set = (next: { from: number; to: number }) => setFilters({ from: String(next.from), to: String(next.to) })
  const options = (chosen: number) => {
    const listed = revisions.map(one => ({
      value: String(one.number),
      label: `r${one.number}${one.id === deployment.active_revision_id ? ', serving' : ''}: ${describe(one)}`,
    }))
    const isListed = revisions.some(({ number }) => number === chosen)
    return isListed ? listed : [...listed, { value: String(chosen), label: `r${chosen}` }]
  }
  return (
    <div class={styles.page}>
      <Card title="Compare two revisions">
        <div class={styles.pickers}>
          <SelectField
            label="From"
            value={String(before)}
            options={options(before)}
            onChange={value => set({ from: Number(value), to: after })}
          />
          <SelectField
            label="To"
            value={String(after)}
            options={options(after)}
            onChange={value => set({ from: before, to: Number(value) })}
          />
          <Button icon="again" onClick={() => set({ from: after, to: before })}>
            Swap sides
          </Button>
        </div>
      </Card>
      <Difference
        key={`${before} ${after}`}
        workspace={workspace}
        deployment={deployment}
        revisions={revisions}
        before={before}
        after={after}
      />
      <CommandLine command={`slipway diff ${deployment.name} ${before} ${after}`} />
    </div>
  )
}

const describe = ({ status, commit, reasons }: Revision): string =>
  commit?.message?.split('\n', 1)[0]?.slice(0, 60) ?? `${stateOfRevision({ status }).word}, ${describeReasons(reasons)}`

type DifferenceProps = {
  workspace: string
  deployment: Deployment
  revisions: Revision[]
  before: number
  after: number
}

function Difference({ workspace, deployment, revisions, before, after }: DifferenceProps) {
  const [first, second] = [before, after].map(number => useRevision(workspace, deployment.id, revisions, number))
  const ids = [first!, second!].map(({ revision }) => revision?.id)
  const { data, error, refetch } = useRead(
    workspace,
    'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}',
    { params: { deployment_id: deployment.id, revision_id: ids[0] ?? '', other_revision_id: ids[1] ?? '' } },
    { enabled: ids.every(id => id !== undefined) },
  )
  if (first!.isMissing || second!.isMissing)
    return (
      <Empty
        title={`No revision r${first!.isMissing ? before : after}`}
        action={<Button onClick={() => setFilters({ from: '', to: '' })}>Compare the last two</Button>}
      >
        The address names a revision that this deployment does not have.
      </Empty>
    )
  if (error) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={6} />
  return (
    <>
      <Results deployment={deployment} comparison={data} />
      <Card title="Configuration and secrets" aside={data.changes.length > 0 ? 'Secrets by version' : undefined}>
        {data.changes.length === 0 ? (
          <p class={styles.same}>
            {before === after ? 'Both sides are the same revision.' : 'The configurations and secrets are identical.'}
          </p>
        ) : (
          <DiffTable
            caption={`Differences from r${before} to r${after}`}
            columns={[`r${before}`, `r${after}`]}
            rows={flattenChanges(data.changes).map(({ path, before, after }) => ({
              path,
              before: <OldValue value={versionOf(path, before)} />,
              after: <NewValue value={versionOf(path, after)} absent={before === null ? 'not set' : 'removed'} />,
            }))}
          />
        )}
      </Card>
    </>
  )
}

const versionOf = (path: string, value: unknown) =>
  path.startsWith('secrets.') && typeof value === 'number' ? `set by r${value}` : value

/** Differences outside of the configuration. */
function Results({
  deployment,
  comparison: { before, after, commits },
}: {
  deployment: Deployment
  comparison: Comparison
}) {
  const sides = [before, after]
  const row = (label: string, cell: (one: Compared) => preact.ComponentChildren) => (
    <tr>
      <th scope="row">{label}</th>
      {sides.map((one, i) => (
        <td key={i}>{cell(one)}</td>
      ))}
    </tr>
  )
  return (
    <Card
      title="Results"
      aside={
        commits?.compare_url && (
          <a class={styles.link} href={commits.compare_url} target="_blank" rel="noreferrer">
            Show the commits between them
          </a>
        )
      }
    >
      <table class={styles.results}>
        <caption class={styles.unseen}>Results of both revisions</caption>
        <thead>
          <tr>
            <td />
            {sides.map(({ number }, i) => (
              <th key={i} scope="col">
                <Link to={`/deployments/${deployment.id}/revisions/${number}`}>r{number}</Link>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {row('State', one => (
            <StateLabel state={stateOfRevision(one)} />
          ))}
          {row('Created', ({ created_at }) => (
            <Ago time={created_at} suffix=" ago" />
          ))}
          {sides.some(({ commit }) => commit) &&
            row('Commit', ({ commit }) => (commit ? <code title={commit}>{shortCommit(commit)}</code> : '–'))}
          {sides.some(({ image_digest }) => image_digest) &&
            row('Image', ({ image_digest }) =>
              image_digest ? (
                <code title={image_digest}>
                  {image_digest.slice(0, 11)}…{image_digest.slice(-4)}
                </code>
              ) : (
                '–'
              ),
            )}
          {row('Build', ({ build_seconds }) => (build_seconds === null ? 'Not built' : formatSeconds(build_seconds)))}
          {row('Error lines', ({ id, error_lines }) =>
            error_lines === 0 ? (
              'None'
            ) : (
              <Link class={styles.link} to={`/deployments/${deployment.id}/logs?revision=${id}&level=error`}>
                {error_lines}
              </Link>
            ),
          )}
        </tbody>
      </table>
    </Card>
  )
}
