// A listener: whether its agent is heard, how to start one, what runs there, and the keys of its agents.
import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Item, Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { ActionButton, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip } from '../../parts/field.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Body, Columns, Foot, Note, PageHead, Stack } from '../../parts/page.tsx'
import { Card, CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { toast } from '../../parts/toasts.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { DeploymentsCard, useDeploymentsWhere } from '../deployments-where.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { changeNamespaces, createKey, deleteListener, revokeKey } from './actions.ts'
import styles from './listener.module.css'
import {
  agentCommand,
  describeAbilities,
  describeType,
  type Engine,
  enginesOf,
  type Listener,
  stateOfListener,
} from './listener-state.ts'

type Key = Item<'GET /workspaces/current/api-keys'>

/** A poll has no event. While someone waits for the first one, it is looked for more often. */
const READ_EVERY_MS = 10_000
const WAIT_EVERY_MS = 2_000

export default function ListenerPage({ workspace, params, me }: ScreenProps<{ listener: string }>) {
  const ref = { params: { listener_id: params.listener } }
  /** Set if nobody had heard the agent when the page was opened. */
  const [first, setFirst] = useState<'awaited' | 'heard'>()
  const {
    data: listener,
    error,
    refetch,
  } = useRead(workspace, 'GET /v2/listeners/{listener_id}', ref, {
    everyMs: first === 'awaited' ? WAIT_EVERY_MS : READ_EVERY_MS,
  })
  const found = useDeploymentsWhere(workspace, { listener_id: params.listener })
  useCrumbs({ label: 'Listeners', to: '/listeners' }, { label: listener?.compute_id ?? '…' })
  const [, navigate] = useLocation()
  const isWaiting = listener?.last_seen_at === null
  useEffect(() => {
    if (isWaiting) setFirst('awaited')
    else if (listener && first === 'awaited') {
      setFirst('heard')
      toast('ok', `The agent of ${listener.compute_id} was heard for the first time.`)
    }
  }, [isWaiting])

  if (isMissing(error))
    return (
      <Empty
        title="This listener is gone"
        action={<ButtonLink href={toAddress('/listeners')}>Open the listeners</ButtonLink>}
      >
        It was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !listener) return <Problem error={error} onRetry={() => void refetch()} />
  if (!listener) return <Skeleton lines={8} />
  const { compute_id, version, last_seen_at } = listener
  const count = found.deployments?.length ?? 0
  const blocked =
    explainMissing(me, workspace, 'listeners:delete') ??
    (count > 0 ? `It serves ${count} ${count === 1 ? 'deployment' : 'deployments'}. Delete them first.` : undefined)
  return (
    <>
      <PageHead
        title={compute_id}
        state={<StateLabel state={stateOfListener(listener, now.value)} large />}
        meta={[
          <>
            <Icon name="listener" />
            {describeType(listener)}
          </>,
          last_seen_at ? (
            <span>
              Last heard <Ago time={last_seen_at} suffix=" ago" />
            </span>
          ) : (
            'Never heard'
          ),
          version && `Agent ${version}`,
        ]}
      />
      <Columns>
        <Stack>
          {/* A new listener first needs an agent; later, what runs there is looked for. */}
          {first && <AgentCard {...{ listener, workspace, me }} />}
          <DeploymentsCard
            title="Deployments that run here"
            none="None. To run one here, choose this listener under “Runs on” when you create it."
            {...found}
          />
          {!first && <AgentCard {...{ listener, workspace, me }} />}
        </Stack>
        <Stack>
          <Card title="What it can do">
            <Body>
              <Note>{describeAbilities(listener)}</Note>
            </Body>
          </Card>
          {listener.compute_type === 'k8s' && <NamespacesCard listener={listener} key={listener.updated_at} />}
          <KeysCard {...{ listener, workspace, me }} />
        </Stack>
      </Columns>
      <Foot>
        <p>
          Registered <Ago time={listener.created_at} suffix=" ago" />. Id <code>{listener.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteListener(listener, blocked)}
          onDone={() => navigate(toAddress('/listeners'))}
        />
      </Foot>
    </>
  )
}

type CardProps = { listener: Listener; workspace: string; me: ScreenProps['me'] }

const ENGINES: Record<Engine, string> = {
  process: 'As processes',
  container: 'As containers',
  kubernetes: 'On Kubernetes',
}
const NEEDS: Record<Engine, string> = {
  process:
    'As root it gives each application a system user of its own. As another user, applications can read what ' +
    'that user can: see docs/operate/processes.md.',
  container:
    'It needs the socket of Docker or Podman, by default /var/run/docker.sock: see docs/operate/containers.md.',
  kubernetes: 'It finds the cluster like kubectl, and needs the Role of docs/operate/kubernetes.md in each namespace.',
}

/** The key, the command, and the first sign of the agent, in the order in which a person needs them. */
function AgentCard({ listener, workspace, me }: CardProps) {
  const [key, setKey] = useState<string>()
  const [chosen, setChosen] = useState<Engine>()
  const engines = enginesOf(listener)
  const engine = chosen ?? engines[0]!
  const state = stateOfListener(listener, now.value)
  const isHeard = state.tone === 'ok'
  const missing = explainMissing(me, workspace, 'api-keys:create')
  return (
    <Card
      title={isHeard ? 'Start another agent' : listener.last_seen_at ? 'Start its agent again' : 'Start its agent'}
      tone={state.tone === 'warn' ? 'warn' : undefined}
      aside={<StateLabel state={state} />}
    >
      <ol class={styles.steps}>
        <li>
          <h3>Create a key</h3>
          <p>It allows what an agent of this listener does, and nothing else.</p>
          {key === undefined ? (
            <ActionButton
              action={createKey(listener, missing)}
              look={listener.last_seen_at ? 'default' : 'primary'}
              onDone={reply => setKey((reply as Reply<'POST /v2/listeners/{listener_id}/keys'>).key)}
            />
          ) : (
            <ShownOnce title="This key is shown only now" secret={key}>
              The command below has it too. Copy one of the two before you leave this page.
            </ShownOnce>
          )}
        </li>
        <li>
          <h3>Start the agent {listener.compute_type === 'k8s' ? 'with access to the cluster' : 'on that machine'}</h3>
          <p>
            In a checkout of Slipway, after <code>npm ci</code>:
          </p>
          {engines.length > 1 && (
            <div class={styles.engines}>
              {engines.map(name => (
                <Chip key={name} pressed={name === engine} onPress={() => setChosen(name)}>
                  {ENGINES[name]}
                </Chip>
              ))}
            </div>
          )}
          <CommandLine
            command={agentCommand({
              engine,
              origin: location.origin,
              key,
              namespaces: listener.compute_config.k8s_namespaces,
            })}
          />
          <p>{NEEDS[engine]}</p>
        </li>
        <li>
          <h3>{isHeard ? 'It takes over when the first one stops' : 'Wait until it is heard'}</h3>
          {listener.last_seen_at === null ? (
            <p role="status">Looking every 2 seconds. This page says so when its agent polls for the first time.</p>
          ) : (
            <p role="status">
              {isHeard ? 'The agent of this listener was heard ' : 'It was last heard '}
              <Ago time={listener.last_seen_at} suffix=" ago" />
              {isHeard
                ? '. Only one agent works at a time: another one waits until this one ends.'
                : '. What it runs keeps running, but nothing is deployed and its logs stay there. Start it again, or ' +
                  'look why it cannot reach this address.'}
            </p>
          )}
        </li>
      </ol>
    </Card>
  )
}

function NamespacesCard({ listener }: { listener: Listener }) {
  const stored = listener.compute_config.k8s_namespaces.join(', ')
  const [text, setText] = useState(stored)
  const { start, busy, error } = useAction({ showsError: true })
  const action = changeNamespaces(listener, text.split(/[\s,]+/).filter(Boolean))
  const isChanged = text !== stored
  return (
    <Card title="Namespaces">
      <Form
        error={error}
        label="Namespaces"
        onSubmit={() => start(action)}
        footer={
          <Button type="submit" busy={busy} disabled={!isChanged}>
            {action.label}
          </Button>
        }
      >
        <TextField
          label="Those that deployments can use"
          mono
          value={text}
          onChange={setText}
          isChanged={isChanged}
          hint="One that deployments use cannot be removed. They have to exist: the agent creates none."
          fault={faultAt(listFaults(error), 'compute_config')}
        />
      </Form>
    </Card>
  )
}

function KeysCard({ listener, workspace, me }: CardProps) {
  const missing = explainMissing(me, workspace, 'api-keys:read')
  const { data, error } = useRead(
    workspace,
    'GET /workspaces/current/api-keys',
    { query: { limit: 100 } },
    { enabled: missing === undefined },
  )
  const keys = data?.resources.filter(({ listener_id }) => listener_id === listener.id)
  const cannotRevoke = explainMissing(me, workspace, 'api-keys:delete')
  return (
    <Card title="Keys of its agents" aside={keys && keys.length > 0 && keys.length}>
      {error && <Problem error={error} />}
      {(missing || keys?.length === 0) && (
        <Body>
          <Note>{missing ?? 'None. An agent needs one to poll.'}</Note>
        </Body>
      )}
      {keys && keys.length > 0 && (
        <Table caption="Keys of its agents" columns={[{ label: 'Key' }, { label: 'Used', width: '152', isEnd: true }]}>
          {keys.map(key => (
            <KeyRow key={key.id} agentKey={key} cannotRevoke={cannotRevoke} />
          ))}
        </Table>
      )}
    </Card>
  )
}

const KeyRow = ({ agentKey, cannotRevoke }: { agentKey: Key; cannotRevoke: string | undefined }) => (
  <Row>
    <Cell detail={agentKey.description}>
      <code>{agentKey.hint}</code>{' '}
      {agentKey.expires_at && Date.parse(agentKey.expires_at) < now.value && <Badge tone="warn">Expired</Badge>}
    </Cell>
    <Cell isEnd detail={agentKey.last_used_at ? <Ago time={agentKey.last_used_at} suffix=" ago" /> : 'Not used yet'}>
      <ActionButton small action={revokeKey(agentKey, cannotRevoke)} />
    </Cell>
  </Row>
)
