// The previews of the workspace: a list, or branches by deployments.
import { usePages } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { PreviewMatrix } from './matrix.tsx'
import { PreviewList } from './preview-list.tsx'
import styles from './previews.module.css'
import { type Preview, policyCommand } from './words.ts'

const PAGE_SIZE = 100
const OPEN: Preview['state'][] = ['pending', 'awaiting_approval', 'denied', 'full', 'live']
const VIEWS: { name: string; label: string; states: Preview['state'][] }[] = [
  { name: '', label: 'Open', states: OPEN },
  { name: 'approval', label: 'Waiting for approval', states: ['awaiting_approval'] },
  { name: 'live', label: 'Live', states: ['live'] },
  { name: 'ended', label: 'Ended', states: ['ended'] },
]

export default function Previews({ workspace }: ScreenProps) {
  useCrumbs({ label: 'Previews' })
  const [branch, setBranch] = useFilter('branch')
  const [view, setView] = useFilter('view')
  const [shape, setShape] = useFilter('as')
  const { states } = VIEWS.find(({ name }) => name === view) ?? VIEWS[0]!
  const query = { limit: PAGE_SIZE, state: states, ...(branch && { branch_contains: branch }) }
  const { items, error, hasNextPage, isFetchingNextPage, isPlaceholderData, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/previews',
    { query },
  )
  const isMatrix = shape === 'matrix'
  const toggle = () => setFilters({ as: new URLSearchParams(location.search).get('as') ? '' : 'matrix' })
  useCommands([{ id: 'matrix', label: 'Previews as list or matrix', kind: 'setting', keys: 'x', run: toggle }])
  const isFiltered = branch !== '' || view !== ''
  return (
    <>
      <PageHead title="Previews" />
      <Toolbar
        views={
          <>
            {VIEWS.map(({ name, label }) => (
              <Chip key={name} pressed={name === view} onPress={() => setView(name)}>
                {label}
              </Chip>
            ))}
            <span class={styles.rule} />
            <Chip pressed={isMatrix} onPress={() => setShape(isMatrix ? '' : 'matrix')}>
              Matrix
            </Chip>
          </>
        }
      >
        <FilterField
          label="Filter previews by branch"
          placeholder="Filter by branch"
          value={branch}
          onChange={setBranch}
          aside={items && `${items.length}${hasNextPage ? '+' : ''} ${items.length === 1 ? 'preview' : 'previews'}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <div class={`${styles.card} ${isPlaceholderData ? styles.old : ''}`}>
        {!items && !error && <Skeleton lines={8} />}
        {items?.length === 0 && (isFiltered ? <NoMatch /> : <First />)}
        {items && items.length > 0 && isMatrix && <PreviewMatrix workspace={workspace} previews={items} />}
        {items && items.length > 0 && !isMatrix && (
          <PreviewList workspace={workspace} previews={items} caption="Previews, newest first" />
        )}
      </div>
      {hasNextPage && (
        <div class={styles.more}>
          <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more previews
          </Button>
        </div>
      )}
    </>
  )
}

const First = () => (
  <Empty
    title="No open previews"
    command={policyCommand('DEPLOYMENT_ID')}
    action={<ButtonLink href={toAddress('/deployments')}>Choose a deployment</ButtonLink>}
  >
    A preview is a deployment for one pull request. Open a deployment from a Git repository, set a preview policy in the
    tab Previews, then open a pull request.
  </Empty>
)

const NoMatch = () => (
  <Empty
    title="No preview matches"
    action={<Button onClick={() => setFilters({ branch: '', view: '' })}>Show all open previews</Button>}
  >
    A link to this address has the filter.
  </Empty>
)
