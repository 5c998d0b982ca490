// The models that the workspace can call.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { usePages } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { Link, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { explainMissingManagement } from './actions.ts'
import { ModelsFrame } from './frame.tsx'
import { describePrices, PROVIDERS, stateOfModel } from './model-state.ts'

const NEW = '/models/new'

export default function ModelList({ workspace, me }: ScreenProps) {
  const [name, setName] = useFilter('name')
  const [, navigate] = useLocation()
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v1/model-configurations',
    { query: { limit: 100 } },
  )
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'model')
  const missing = explainMissingManagement(me, workspace)
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a model', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const words = name.toLowerCase()
  const shown = items?.filter(one =>
    [one.name, one.model, one.base_url].some(text => text.toLowerCase().includes(words)),
  )
  return (
    <ModelsFrame
      tab=""
      actions={
        <CreateLink href={toAddress(NEW)} missing={missing}>
          Create model
        </CreateLink>
      }
    >
      <Toolbar>
        <FilterField
          label="Filter models by name or URL"
          placeholder="Filter by name or URL"
          value={name}
          onChange={setName}
          aside={items && items.length > 0 && shown && `${shown.length} of ${items.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!items && !error && <Skeleton lines={4} />}
        {items?.length === 0 && (
          <Empty
            title="No models yet"
            action={!missing && <ButtonLink href={toAddress(NEW)}>Create a model</ButtonLink>}
          >
            A model is called through this installation, so that applications and people need no key of its provider.
            Calls are counted, limited by budgets, and traced if you like.
          </Empty>
        )}
        {items && items.length > 0 && shown?.length === 0 && (
          <Empty title="No model matches" action={<Button onClick={() => setName('')}>Show all models</Button>}>
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="Models, newest first"
            tableRef={table}
            columns={[
              { label: 'Name', width: '34%' },
              { label: 'Last test', width: '20%' },
              { label: 'Where' },
              { label: 'Created', width: '96', isEnd: true },
            ]}
          >
            {shown.map(model => (
              <Row key={model.id}>
                <Cell icon={<Icon name="spark" />} detail={`${model.model} · ${PROVIDERS[model.provider]}`}>
                  <Link to={`/models/${model.id}`} data-row class={rowLink}>
                    {model.name}
                  </Link>
                </Cell>
                <Cell detail={model.last_test && <Ago time={model.last_test.tested_at} suffix=" ago" />}>
                  <StateLabel state={stateOfModel(model)} />
                </Cell>
                <Cell isWideOnly detail={describePrices(model)}>
                  <code title={model.base_url}>{model.base_url}</code>
                </Cell>
                <Cell isEnd>
                  <Ago time={model.created_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </ModelsFrame>
  )
}
