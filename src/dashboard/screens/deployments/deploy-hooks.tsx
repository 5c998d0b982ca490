// The deploy hooks of a deployment: secret URLs that deploy. A new one is shown once.
import { useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import type { ScreenProps } from '../screen-props.ts'

/** A deployment has at most 20. */
const PAGE_SIZE = 20
const HOOKS = 'GET /v2/deployments/{deployment_id}/deploy-hooks'
type Hook = Reply<typeof HOOKS>['resources'][number]
type Made = Reply<'POST /v2/deployments/{deployment_id}/deploy-hooks'>

const makeHook = ({ id }: Deployment, name: string, refs: string, unavailable: string | undefined): Action => ({
  label: 'Create deploy hook',
  request: request('POST /v2/deployments/{deployment_id}/deploy-hooks', {
    params: { deployment_id: id },
    body: { name: name.trim(), refs: refs.split(',').flatMap(ref => ref.trim() || []) },
  }),
  unavailable,
  done: `The deploy hook ${name.trim()} is ready.`,
})

const deleteHook = ({ id, name, deployment_id }: Hook, unavailable: string | undefined): Action => ({
  label: 'Delete deploy hook',
  request: request('DELETE /v2/deployments/{deployment_id}/deploy-hooks/{hook_id}', {
    params: { deployment_id, hook_id: id },
  }),
  unavailable,
  confirm: { title: `Delete the deploy hook ${name}?`, body: 'Its URL ends at once.', isDestructive: true },
  done: `The deploy hook ${name} is deleted.`,
})

export type DeployHooksProps = { workspace: string; me: ScreenProps<object>['me']; deployment: Deployment }

export default function DeployHooks({ workspace, me, deployment }: DeployHooksProps) {
  const missing = explainMissing(me, workspace, 'deployments:update')
  const ref = { params: { deployment_id: deployment.id }, query: { limit: PAGE_SIZE } }
  const { items, error, refetch } = usePages(workspace, HOOKS, ref)
  const [name, setName] = useState('')
  const [refs, setRefs] = useState('')
  const [made, setMade] = useState<Made>()
  const creation = useAction({
    onDone: reply => {
      setMade(reply as Made)
      setName('')
      setRefs('')
    },
    showsError: true,
  })
  const action = makeHook(deployment, name, refs, missing)
  const faults = listFaults(creation.error)
  return (
    <Card title="Deploy hooks">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {items && items.length > 0 && (
        <Table
          caption="Deploy hooks, newest first"
          columns={[{ label: 'Name', width: '40%' }, { label: 'Use' }, { label: 'Delete', width: '200', isEnd: true }]}
        >
          {items.map(hook => (
            <Row key={hook.id}>
              <Cell detail={hook.refs.length > 0 ? <code>{hook.refs.join(', ')}</code> : undefined}>{hook.name}</Cell>
              <Cell>
                {hook.last_used_at === null ? (
                  'Never used'
                ) : (
                  <>
                    Used <Ago time={hook.last_used_at} suffix=" ago" />
                  </>
                )}
              </Cell>
              <Cell isEnd>
                <ActionButton small action={deleteHook(hook, missing)} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <Form
        error={creation.error}
        label="New deploy hook"
        onSubmit={() => creation.start(action)}
        footer={
          <>
            <Button type="submit" busy={creation.busy} title={missing}>
              {action.label}
            </Button>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField
          label="Name of the hook"
          value={name}
          onChange={setName}
          hint="A POST to its URL deploys, without a key."
          fault={faultAt(faults, 'name')}
        />
        <TextField
          mono
          label="Other refs"
          value={refs}
          onChange={setRefs}
          hint="Globs, separated by commas, that a request may name as ref. None: only the ref of the deployment."
          fault={faultAt(faults, 'refs')}
        />
        {made && (
          <ShownOnce title="Copy the URL now. It is not shown again" secret={made.url}>
            Whoever knows it can deploy.
          </ShownOnce>
        )}
      </Form>
    </Card>
  )
}
