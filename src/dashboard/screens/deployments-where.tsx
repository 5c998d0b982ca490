// The deployments of the workspace that a listener runs, or that build from a git host.
import { useEffect } from 'preact/hooks'
import type { CallOptions } from '../api/client.ts'
import { usePages } from '../api/queries.ts'
import { describeSource } from '../format/source.ts'
import { type Deployment, stateOfDeployment } from '../format/state.ts'
import { Card } from '../parts/card.tsx'
import { Icon } from '../parts/icon.tsx'
import { Skeleton } from '../parts/panel.tsx'
import { Body, Note } from '../parts/sections.tsx'
import { StateLabel } from '../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import { Link } from '../router/links.tsx'

const PAGE_SIZE = 100
const MAX_READ = 1000

type Query = NonNullable<CallOptions<'GET /v2/deployments'>['query']>
type Found = { deployments: Deployment[] | undefined; isComplete: boolean }
type Read = { error: Error | null; isLoadingError: boolean; refetch: () => unknown }

/** Reads all that match, up to a thousand. `isWanted` filters by what the API cannot. */
export function useDeploymentsWhere(
  workspace: string,
  query: Query,
  isWanted: (deployment: Deployment) => boolean = () => true,
): Found & { read: Read } {
  const { items, hasNextPage, isFetchingNextPage, fetchNextPage, ...read } = usePages(
    workspace,
    'GET /v2/deployments',
    {
      query: { ...query, include: ['summary'], limit: PAGE_SIZE },
    },
  )
  const isComplete = items !== undefined && !hasNextPage
  const goesOn = hasNextPage && !isFetchingNextPage && (items?.length ?? 0) < MAX_READ
  useEffect(() => {
    if (goesOn) void fetchNextPage()
  }, [goesOn, items?.length])
  return { deployments: items?.filter(isWanted), isComplete, read }
}

type Props = Found & { title: string; none: string }
export const DeploymentsCard = ({ title, none, deployments, isComplete }: Props) => (
  <Card title={title} aside={deployments && deployments.length > 0 && `${deployments.length}${isComplete ? '' : '+'}`}>
    {!deployments && <Skeleton lines={2} />}
    {deployments?.length === 0 && (
      <Body>
        <Note>{isComplete ? none : `None of the newest ${MAX_READ} deployments.`}</Note>
      </Body>
    )}
    {deployments && deployments.length > 0 && (
      <Table
        caption={title}
        columns={[
          { label: 'Deployment', width: '38%' },
          { label: 'State', width: '30%' },
          { label: 'Source' },
          { label: 'Changed', width: '88', isEnd: true },
        ]}
      >
        {deployments.map(deployment => {
          const { id, name, updated_at, summary } = deployment
          const source = describeSource(deployment)
          return (
            <Row key={id}>
              <Cell icon={<Icon name={source.kind} label={source.kindWord} />}>
                <Link to={`/deployments/${id}`} class={rowLink}>
                  {name}
                </Link>
              </Cell>
              <Cell>
                <StateLabel state={stateOfDeployment(deployment, summary?.latest_revision ?? undefined)} />
              </Cell>
              <Cell isWideOnly>
                <span title={source.name}>{source.name}</span>
              </Cell>
              <Cell isEnd>
                <Ago time={updated_at} />
              </Cell>
            </Row>
          )
        })}
      </Table>
    )}
  </Card>
)
