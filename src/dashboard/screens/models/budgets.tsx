// Budgets with their spending, and a form to create one.
import { useState } from 'preact/hooks'
import type { Me } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { usePages } from '../../api/queries.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { useFilter } from '../../router/links.tsx'
import { createBudget, deleteBudget, explainMissingManagement, type NewBudgetBody } from './actions.ts'
import { type Budget, describeSpent, NEARLY, PERIODS, shareSpent, stateOfBudget } from './model-state.ts'
import styles from './models.module.css'

const ALMOST_ALL = 0.999
/** Spending has no events. */
const READ_EVERY_MS = 15_000

export function Budgets({ workspace, me }: { workspace: string; me: Me }) {
  const [open, setOpen] = useFilter('open')
  const { items, error, refetch } = usePages(
    workspace,
    'GET /v1/model-budgets',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const deployments = usePages(workspace, 'GET /v2/deployments', { query: { limit: 100 } })
  const missing = explainMissingManagement(me, workspace)
  const nameOf = (budget: Budget) =>
    budget.deployment_id === null
      ? 'All calls of the workspace'
      : (deployments.items?.find(({ id }) => id === budget.deployment_id)?.name ?? budget.deployment_id)
  return (
    <>
      <Card
        title="Budgets"
        aside={
          <Button
            small
            icon="plus"
            aria-expanded={open === 'budget'}
            unavailable={missing}
            onClick={() => setOpen(open === 'budget' ? '' : 'budget')}
          >
            Create budget
          </Button>
        }
      >
        {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
        {!items && !error && <Skeleton lines={3} />}
        {items?.length === 0 && (
          <Body>
            <Note>
              No budgets yet, so calls are not limited. A budget refuses calls once the limit is reached, until the
              period ends.
            </Note>
          </Body>
        )}
        {items && items.length > 0 && (
          <Table
            caption="Budgets, newest first"
            columns={[
              { label: 'Applies to', width: '36%' },
              { label: 'Spent' },
              { label: 'State', width: '22%' },
              { label: '', width: '120', isEnd: true },
            ]}
          >
            {items.map(budget => (
              <Row key={budget.id}>
                <Cell detail={`Each ${PERIODS[budget.period]}`}>{nameOf(budget)}</Cell>
                <Cell
                  detail={
                    <meter
                      class={styles.meter}
                      value={Math.min(1, shareSpent(budget))}
                      low={NEARLY}
                      high={ALMOST_ALL}
                      optimum={0}
                      aria-label={`Spent of the budget of ${nameOf(budget)}`}
                    />
                  }
                >
                  {describeSpent(budget).join(', ')}
                </Cell>
                <Cell
                  detail={
                    <>
                      Until{' '}
                      <time dateTime={budget.period_end} title={formatExact(budget.period_end)}>
                        {formatShort(budget.period_end)}
                      </time>
                    </>
                  }
                >
                  <StateLabel state={stateOfBudget(budget)} />
                </Cell>
                <Cell isEnd>
                  <ActionButton small look="bare" action={deleteBudget(budget, missing)} />
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </Card>
      {open === 'budget' && !missing && <NewBudget deployments={deployments.items ?? []} onClose={() => setOpen('')} />}
    </>
  )
}

const toNumber = (text: string) => (text.trim() === '' ? null : (Number(text.replace(',', '.')) as number))

type NewProps = { deployments: { id: string; name: string }[]; onClose: () => void }
function NewBudget({ deployments, onClose }: NewProps) {
  const [draft, setDraft] = useState({ deployment: '', period: 'month', usd: '', tokens: '', calls: '' })
  const change = (part: Partial<typeof draft>) => setDraft(current => ({ ...current, ...part }))
  const { start, busy, error } = useAction({ onDone: onClose, showsError: true })
  const faults = listFaults(error)
  const body: NewBudgetBody = {
    deployment_id: draft.deployment || null,
    period: draft.period as Budget['period'],
    limit_usd: toNumber(draft.usd),
    limit_tokens: toNumber(draft.tokens),
    limit_calls: toNumber(draft.calls),
  }
  const action = createBudget(body, undefined)
  return (
    <Card title="Create a budget">
      <Form
        error={error}
        label="Create a budget"
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Cancel</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <div class={styles.fields}>
          <SelectField
            label="Applies to"
            value={draft.deployment}
            onChange={deployment => change({ deployment })}
            options={[
              { value: '', label: 'All calls of the workspace' },
              ...deployments.map(({ id, name }) => ({ value: id, label: name })),
            ]}
            fault={faultAt(faults, 'deployment_id')}
          />
          <SelectField
            label="Period"
            value={draft.period}
            onChange={period => change({ period })}
            options={Object.entries(PERIODS).map(([value, label]) => ({ value, label }))}
            hint="In UTC. Earlier usage of the current period counts."
            fault={faultAt(faults, 'period')}
          />
          <TextField
            label="Cost"
            inputMode="decimal"
            unit="USD"
            value={draft.usd}
            onChange={usd => change({ usd })}
            hint="Calls of models without prices cost nothing."
            fault={faultAt(faults, 'limit_usd')}
          />
          <TextField
            label="Tokens"
            inputMode="numeric"
            value={draft.tokens}
            onChange={tokens => change({ tokens })}
            fault={faultAt(faults, 'limit_tokens')}
          />
          <TextField
            label="Calls"
            inputMode="numeric"
            value={draft.calls}
            onChange={calls => change({ calls })}
            fault={faultAt(faults, 'limit_calls')}
          />
        </div>
      </Form>
    </Card>
  )
}
