// A git host: state, remedy, repositories, deployments and activity.
import { useLocation } from 'wouter-preact'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { describeActor, hostOf } from '../../format/source.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { FilterField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Columns, Facts, Foot, Marked, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import { DeploymentsCard, useDeploymentsWhere } from '../deployments-where.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { disconnect, recheck } from './actions.ts'
import styles from './integration.module.css'
import {
  accountUrl,
  describeDeliveries,
  explainState,
  HOST_NAMES,
  type Integration,
  isReplaceable,
  stateOfIntegration,
} from './integration-state.ts'
import { ReplaceCredential } from './replace-credential.tsx'
import { SshCard } from './ssh-keys.tsx'
import { WebhookSetup } from './webhook-setup.tsx'

const SHOWN_REPOSITORIES = 50
const SHOWN_EVENTS = 8

export default function IntegrationPage({ workspace, params, me }: ScreenProps<{ integration: string }>) {
  const ref = { params: { integration_id: params.integration } }
  const route = 'GET /v1/integrations/forge/githost/{integration_id}'
  const { data: integration, error, refetch } = useRead(workspace, route, ref)
  const found = useDeploymentsWhere(
    workspace,
    { source: 'githost' },
    one => one.source_config.integration_id === params.integration,
  )
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Git hosts', to: '/integrations' }, { label: integration?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Git host not found"
        action={<ButtonLink href={toAddress('/integrations')}>Open the git hosts</ButtonLink>}
      >
        The git host was disconnected, or it is in another workspace.
      </Empty>
    )
  if (error && !integration) return <Problem error={error} onRetry={() => void refetch()} />
  if (!integration) return <Skeleton lines={8} />
  const { name, host, base_url, installation_id, created_at, ssh } = integration
  const state = stateOfIntegration(integration)
  const missing = explainMissing(me, workspace, 'integrations:manage')
  const remedy = explainState(integration)
  const replaceable = isReplaceable(integration)
  const check = recheck(integration, missing)
  return (
    <>
      <PageHead
        title={name}
        state={<StateLabel state={state} large />}
        actions={
          <>
            <ActionButton action={check} icon="again" />
            {!ssh && (
              <ButtonLink href={accountUrl(integration)} icon="out" target="_blank" rel="noreferrer">
                Open at the host
              </ButtonLink>
            )}
          </>
        }
        meta={[
          <>
            <Icon name="branch" />
            {HOST_NAMES[host]}
          </>,
          hostOf(base_url),
        ]}
      />
      {remedy && (
        <div class={styles.remedy}>
          <Card
            tone={state.tone === 'bad' ? 'bad' : 'warn'}
            title={<Marked {...state}>Connection {state.word.toLowerCase()}</Marked>}
          >
            <Body>
              <Note>{remedy}</Note>
              {!replaceable && !ssh && (
                <p>
                  <ButtonLink href={toAddress(`/integrations/new?by=${host}`)}>Reconnect</ButtonLink>
                </p>
              )}
            </Body>
            {replaceable && <ReplaceCredential integration={integration} missing={missing} />}
          </Card>
        </div>
      )}
      <Columns>
        <Stack>
          <Repositories integration={integration} workspace={workspace} />
          <DeploymentsCard
            title="Deployments"
            none="No deployments yet. Deploy a repository of this account."
            {...found}
          />
        </Stack>
        <Stack>
          <Card title="Connection">
            <Body>
              <Facts
                facts={[
                  ['Address', base_url],
                  [host === 'github' ? 'Installation' : 'Account id', <code>{installation_id}</code>],
                  ['Connected', <Ago time={created_at} suffix=" ago" />],
                ]}
              />
            </Body>
          </Card>
          {ssh && <SshCard integration={integration} ssh={ssh} missing={missing} />}
          <Card title="Pushes">
            <Body>
              <WebhookSetup integration={integration} />
              <Note>{describeDeliveries(integration)}</Note>
            </Body>
          </Card>
          <History integration={integration} workspace={workspace} />
        </Stack>
      </Columns>
      <Foot>
        <p>
          Id <code>{integration.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={disconnect(integration, found.deployments?.length, missing)}
          onDone={() => navigate(toAddress('/integrations'))}
        />
      </Foot>
    </>
  )
}

type CardProps = { integration: Integration; workspace: string }

function Repositories({ integration, workspace }: CardProps) {
  const [name, setName] = useFilter('repository')
  const isActive = integration.state === 'active'
  const { data, error, isFetching, refetch } = useRead(
    workspace,
    'GET /v1/integrations/forge/githost/{integration_id}/repos',
    {
      params: { integration_id: integration.id },
      query: { limit: SHOWN_REPOSITORIES, ...(name && { name_contains: name }) },
    },
    { enabled: isActive },
  )
  return (
    <Card
      title="Repositories"
      aside={
        isActive &&
        data &&
        `${data.length === SHOWN_REPOSITORIES ? 'The first ' : ''}${data.length}, at most one minute old`
      }
    >
      {isActive ? (
        <>
          <div class={styles.search}>
            <FilterField
              label="Find a repository by name"
              placeholder="Find by name"
              value={name}
              onChange={setName}
              aside={isFetching && 'Loading from the host'}
              hint="/"
            />
          </div>
          {error && <Problem error={error} onRetry={() => void refetch()} />}
          {!data && !error && <Skeleton lines={3} />}
          {data?.length === 0 && (
            <Body>
              <div />
              <Note>
                {name
                  ? `No repository has “${name}” in its name.`
                  : 'The account gives this installation access to no repositories. Change the access at the host, then check ' +
                    'again.'}
              </Note>
            </Body>
          )}
          {data && data.length > 0 && (
            <Table
              caption="Repositories, by owner and name"
              columns={[{ label: 'Repository' }, { label: 'Default branch', width: '150', isEnd: true }]}
            >
              {data.map(({ id, owner, name, url, default_branch }) => (
                <Row key={id}>
                  <Cell icon={<Icon name="branch" />}>
                    <a href={url} target="_blank" rel="noreferrer">
                      {owner}/{name}
                    </a>
                  </Cell>
                  <Cell isEnd>
                    <code>{default_branch}</code>
                  </Cell>
                </Row>
              ))}
            </Table>
          )}
        </>
      ) : (
        <Body>
          <Note>The integration can no longer read the repositories.</Note>
        </Body>
      )}
    </Card>
  )
}

const HAPPENED: Record<string, string> = {
  connected: 'Connected',
  suspended: 'Suspended at the host',
  resumed: 'Resumed at the host',
  updated: 'Credential replaced',
  revoked: 'Revoked at the host',
  limited: 'Refused a part of the work',
  restored: 'Accepted again',
  rechecked: 'Checked',
  verified: 'Read by an agent for the first time',
  host_key_pinned: 'Host key pinned',
  key_revealed: 'Deploy key read',
  repositories_changed: 'Repositories changed',
}

/** The events of the integration. */
function History({ integration, workspace }: CardProps) {
  const { data } = useRead(workspace, 'GET /v2/events', {
    query: { subject_id: integration.id, order: 'desc', limit: SHOWN_EVENTS },
  })
  if (!data || data.resources.length === 0) return null
  return (
    <Card title="Activity">
      <ol class={styles.history}>
        {data.resources.map(({ id, type, created_at, actor }) => (
          <li key={id}>
            <span>{HAPPENED[type.split('.')[1]!] ?? type}</span>
            <span>
              <Ago time={created_at} suffix=" ago" /> by {describeActor(actor as Parameters<typeof describeActor>[0])}
            </span>
          </li>
        ))}
      </ol>
    </Card>
  )
}
