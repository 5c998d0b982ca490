// The automation rules of the workspace: what is done with runs that match.
import { useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip, FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { CreateLink, ListCard, PageHead, Toolbar } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, rowLink, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { describeActions, describeSampling, describeScope, stateOfRule } from './rule-state.ts'

const NEW = '/rules/new'
/** A backfill has no events. */
const READ_EVERY_MS = 15_000
const VIEWS = [
  { name: '', label: 'All' },
  { name: 'active', label: 'Active' },
  { name: 'paused', label: 'Paused' },
] as const

export default function RuleList({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Rules' })
  const [name, setName] = useFilter('name')
  const [view, setView] = useFilter('view')
  const [, navigate] = useLocation()
  const {
    data: rules,
    error,
    refetch,
  } = useRead(workspace, 'GET /runs/rules', { query: {} }, { everyMs: READ_EVERY_MS })
  const table = useRef<HTMLTableElement>(null)
  useRowKeys(table, 'rule')
  const missing = explainMissing(me, workspace, 'rules:create')
  useCommands(
    missing
      ? []
      : [{ id: 'new', label: 'Create a rule', kind: 'action', keys: 'n', run: () => navigate(toAddress(NEW)) }],
  )
  const words = name.toLowerCase()
  const shown = rules?.filter(
    rule =>
      [rule.display_name, describeScope(rule), rule.filter ?? '', ...describeActions(rule)].some(text =>
        text.toLowerCase().includes(words),
      ) &&
      (view === '' || rule.is_enabled === (view === 'active')),
  )
  return (
    <>
      <PageHead
        title="Rules"
        actions={
          <CreateLink href={toAddress(NEW)} missing={missing}>
            Create rule
          </CreateLink>
        }
      />
      <Toolbar
        views={VIEWS.map(one => (
          <Chip key={one.name} pressed={one.name === view} onPress={() => setView(one.name)}>
            {one.label}
          </Chip>
        ))}
      >
        <FilterField
          label="Filter rules by name, project or filter"
          placeholder="Filter by name, project or filter"
          value={name}
          onChange={setName}
          aside={rules && rules.length > 0 && shown && `${shown.length} of ${rules.length}`}
          hint="/"
        />
      </Toolbar>
      {error && !rules && <Problem error={error} onRetry={() => void refetch()} />}
      <ListCard>
        {!rules && !error && <Skeleton lines={4} />}
        {rules?.length === 0 && (
          <Empty title="No rules yet" action={!missing && <ButtonLink href={toAddress(NEW)}>Create a rule</ButtonLink>}>
            A rule does something with each run that matches its filter, without anybody asking: add it to a dataset,
            send it to a URL, or keep its trace for longer.
          </Empty>
        )}
        {rules && rules.length > 0 && shown?.length === 0 && (
          <Empty
            title="No rule matches"
            action={<Button onClick={() => setFilters({ name: '', view: '' })}>Show all rules</Button>}
          >
            The filter is in the address, so a link to it shows the same.
          </Empty>
        )}
        {shown && shown.length > 0 && (
          <Table
            caption="Automation rules, newest first"
            tableRef={table}
            columns={[
              { label: 'Rule', width: '28%' },
              { label: 'State', width: '128' },
              { label: 'Which runs' },
              { label: 'What is done', width: '24%' },
              { label: 'Changed', width: '88', isEnd: true },
            ]}
          >
            {shown.map(rule => (
              <Row key={rule.id}>
                <Cell icon={<Icon name="bolt" />} detail={describeScope(rule)}>
                  <Link to={`/rules/${rule.id}`} data-row class={rowLink} title={rule.display_name}>
                    {rule.display_name}
                  </Link>
                </Cell>
                <Cell>
                  <StateLabel state={stateOfRule(rule)} />
                </Cell>
                <Cell isWideOnly detail={describeSampling(rule)}>
                  {rule.filter ? <code title={rule.filter}>{rule.filter}</code> : 'All runs'}
                </Cell>
                <Cell>{describeActions(rule).join(', ') || 'Nothing'}</Cell>
                <Cell isEnd>
                  <Ago time={rule.updated_at} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </ListCard>
    </>
  )
}
