// A listener: the state of its agent, how to start one, its deployments and agent keys.
import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Item, Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { ActionButton, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { TextField, unlessChanged } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Columns, Foot, Note } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { Badge, StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago, now } from '../../parts/time.tsx'
import { toast } from '../../parts/toast.ts'
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

/** Polls have no event. Read more often while a person waits for the first one. */
const READ_EVERY_MS = 10_000
const WAIT_EVERY_MS = 2_000

export default function ListenerPage({ workspace, params, me }: ScreenProps<{ listener: string }>) {
  const ref = { params: { listener_id: params.listener } }
  /** True if no agent had connected when the page was opened. */
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
      toast('ok', `The agent of ${listener.compute_id} has connected for the first time.`)
    }
  }, [isWaiting])

  if (isMissing(error))
    return (
      <Empty
        title="Listener not found"
        action={<ButtonLink href={toAddress('/listeners')}>Open the listeners</ButtonLink>}
      >
        The listener was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !listener) return <Problem error={error} onRetry={() => void refetch()} />
  if (!listener) return <Skeleton lines={8} />
  const { compute_id, version, last_seen_at } = listener
  const count = found.deployments?.length ?? 0
  const blocked =
    explainMissing(me, workspace, 'listeners:delete') ??
    (count > 0
      ? `The listener serves ${count} ${count === 1 ? 'deployment' : 'deployments'}. Delete them first.`
      : undefined)
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
              Last connected <Ago time={last_seen_at} suffix=" ago" />
            </span>
          ) : (
            'Never connected'
          ),
          version && `Agent ${version}`,
        ]}
      />
      <Columns>
        <Stack>
          {/* A new listener shows its agent first, later ones their deployments. */}
          {first && <AgentCard listener={listener} workspace={workspace} me={me} />}
          <DeploymentsCard
            title="Deployments"
            none="No deployments yet. Choose this listener under “Runs on” when you create a deployment."
            {...found}
          />
          {!first && <AgentCard listener={listener} workspace={workspace} me={me} />}
        </Stack>
        <Stack>
          <Card title="Capabilities">
            <Body>
              <Note>{describeAbilities(listener)}</Note>
            </Body>
            <Capabilities listener={listener} />
          </Card>
          {listener.compute_type === 'k8s' && <NamespacesCard listener={listener} key={listener.updated_at} />}
          <KeysCard listener={listener} workspace={workspace} me={me} />
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

/** Backticks mark code. */
const inCode = (text: string) => text.split('`').map((part, i) => (i % 2 === 1 ? <code>{part}</code> : part))

function Capabilities({ listener: { engine, capabilities } }: { listener: Listener }) {
  if (!capabilities) return null
  return (
    <Table
      caption={`What the ${engine} engine does`}
      columns={[{ label: 'A deployment asks for' }, { label: 'Engine' }]}
    >
      {capabilities.map(({ feature, about, is_done }) => (
        <Row key={feature}>
          <Cell>{inCode(about)}</Cell>
          <Cell>{is_done ? 'Done' : <Badge tone="warn">Refused</Badge>}</Cell>
        </Row>
      ))}
    </Table>
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
    'If the agent runs as root, each application has its own system user. Otherwise applications can read the ' +
    'files of the agent: see docs/operate/processes.md.',
  container:
    'The agent needs the socket of Docker or Podman, by default /var/run/docker.sock: see docs/operate/containers.md.',
  kubernetes:
    'The agent finds the cluster like kubectl, and needs the Role of docs/operate/kubernetes.md in each namespace.',
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
      title={isHeard ? 'Start another agent' : listener.last_seen_at ? 'Restart the agent' : 'Start an agent'}
      tone={state.tone === 'warn' ? 'warn' : undefined}
      aside={<StateLabel state={state} />}
    >
      <ol class={styles.steps}>
        <li>
          <h3>Create a key</h3>
          <p>The key allows only the operations of an agent of this listener.</p>
          {key === undefined ? (
            <ActionButton
              action={createKey(listener, missing)}
              look={listener.last_seen_at ? 'default' : 'primary'}
              onDone={reply => setKey((reply as Reply<'POST /v2/listeners/{listener_id}/keys'>).key)}
            />
          ) : (
            <ShownOnce title="Copy the key now. It is not shown again" secret={key}>
              The command below contains the key. Copy one of the two before you leave this page.
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
          <h3>{isHeard ? 'The agent takes over when the first one stops' : 'Wait for the agent to connect'}</h3>
          {listener.last_seen_at === null ? (
            <p role="status">Checking every 2 seconds. This page shows when the agent connects.</p>
          ) : (
            <p role="status">
              {isHeard ? 'The agent connected ' : 'The agent last connected '}
              <Ago time={listener.last_seen_at} suffix=" ago" />
              {isHeard
                ? '. Only one agent is active at a time. Others wait until it ends.'
                : '. Running applications keep running, but deploys and logs are paused. Start the agent again, or check ' +
                  'why it cannot reach this installation.'}
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
          <Button type="submit" busy={busy} unavailable={unlessChanged(isChanged)}>
            {action.label}
          </Button>
        }
      >
        <TextField
          label="Allowed namespaces"
          mono
          value={text}
          onChange={setText}
          isChanged={isChanged}
          hint="Namespaces in use cannot be removed. The agent does not create namespaces: they must exist."
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
    <Card title="Agent keys" aside={keys && keys.length > 0 && keys.length}>
      {error && <Problem error={error} />}
      {(missing || keys?.length === 0) && (
        <Body>
          <Note>{missing ?? 'No agent keys yet. An agent needs a key to connect.'}</Note>
        </Body>
      )}
      {keys && keys.length > 0 && (
        <Table caption="Agent keys" columns={[{ label: 'Key' }, { label: 'Used', width: '152', isEnd: true }]}>
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
