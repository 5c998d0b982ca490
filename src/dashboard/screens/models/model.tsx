// A model: its URL, test and settings.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Me } from '../../api/client.ts'
import { listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { useCommands } from '../../commands/commands.ts'
import { formatCount, formatLatency } from '../../format/amount.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Icon } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Body, Facts, Foot, Marked, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { changeModel, deleteModel, explainMissingManagement, testModel } from './actions.ts'
import { ModelFields, toDraft, toPatch } from './model-form.tsx'
import { AUTH_TYPES, describePrices, type Model, PROVIDERS, stateOfModel, type TestOutcome } from './model-state.ts'
import styles from './models.module.css'

const PATH = '/v1/model-configurations'

export default function ModelPage({ workspace, params, me }: ScreenProps<{ model: string }>) {
  const ref = { params: { configuration_id: params.model } }
  const { data: model, error, refetch } = useRead(workspace, 'GET /v1/model-configurations/{configuration_id}', ref)
  const [open, setOpen] = useFilter('open')
  const [, navigate] = useLocation()
  const missing = explainMissingManagement(me, workspace)
  const cannotCall = explainMissing(me, workspace, 'models:invoke')
  // Tests have no event.
  const { start, busy, question } = useAction({ onDone: () => void readAgain(PATH) })
  useCrumbs({ label: 'Models', to: '/models' }, { label: model?.name ?? '…' })
  useCommands(
    model
      ? [{ id: 'test', label: 'Test model', kind: 'action', keys: 't', run: () => start(testModel(model, cannotCall)) }]
      : [],
  )
  if (isMissing(error))
    return (
      <Empty title="Model not found" action={<ButtonLink href={toAddress('/models')}>Open the models</ButtonLink>}>
        The model was deleted, or it is in another workspace.
      </Empty>
    )
  if (error && !model) return <Problem error={error} onRetry={() => void refetch()} />
  if (!model) return <Skeleton lines={9} />
  const test = testModel(model, cannotCall)
  return (
    <>
      <PageHead
        title={model.name}
        state={<StateLabel state={stateOfModel(model)} large />}
        actions={
          <>
            <Button look="primary" busy={busy} unavailable={cannotCall} onClick={() => start(test)}>
              {test.label}
            </Button>
            <Button
              aria-expanded={open === 'edit'}
              unavailable={missing}
              onClick={() => setOpen(open === 'edit' ? '' : 'edit')}
            >
              Edit
            </Button>
          </>
        }
        meta={[
          <>
            <Icon name="spark" />
            {PROVIDERS[model.provider]}
          </>,
          <code>{model.model}</code>,
          describePrices(model),
        ]}
      />
      {question}
      <Stack>
        {model.last_test && <TestCard test={model.last_test} />}
        {open === 'edit' && !missing && (
          <EditCard workspace={workspace} me={me} model={model} key={model.updated_at} onClose={() => setOpen('')} />
        )}
        <Card title="Call the model">
          <Body>
            <Note>
              Use this base URL in an SDK of the provider, with an API key of this workspace as its key. Deployments get
              a token automatically.
            </Note>
            <p>
              <code>{model.proxy_url}</code> <CopyButton text={() => model.proxy_url} label="Copy the base URL" />
            </p>
          </Body>
        </Card>
        <Card title="Configuration">
          <Body>
            <Facts
              facts={[
                ['Base URL', <code>{model.base_url}</code>],
                ['Authentication', AUTH_TYPES[model.auth_type]],
                ['Token URL', model.token_url && <code>{model.token_url}</code>],
                ['Client id', model.client_id && <code>{model.client_id}</code>],
                ['Traced in', model.trace_project ?? 'No project'],
                ['Available to', describeAccess(model)],
              ]}
            />
          </Body>
        </Card>
      </Stack>
      <Foot>
        <p>
          Created <Ago time={model.created_at} suffix=" ago" />. Id <code>{model.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteModel(model, missing)}
          onDone={() => navigate(toAddress('/models'))}
        />
      </Foot>
    </>
  )
}

function describeAccess({ deployment_ids }: Model): string {
  if (deployment_ids === null) return 'All deployments'
  if (deployment_ids.length === 0) return 'No deployment'
  return deployment_ids.length === 1 ? '1 deployment' : `${formatCount(deployment_ids.length)} deployments`
}

const TestCard = ({ test }: { test: TestOutcome }) => (
  <Card
    tone={test.ok ? undefined : 'bad'}
    title={
      <Marked shape={test.ok ? 'check' : 'octagon'} tone={test.ok ? 'ok' : 'bad'}>
        {test.ok ? 'The model answered' : 'The model did not answer'}
      </Marked>
    }
    aside={
      <>
        {formatLatency(test.latency_ms / 1000)}, <Ago time={test.tested_at} suffix=" ago" />
      </>
    }
  >
    <Body>
      {test.detail && (
        <Note>
          <Prose text={test.detail} />
        </Note>
      )}
      {test.answer !== null && <p class={styles.answer}>{test.answer}</p>}
      {test.ok && (
        <Facts
          facts={[
            ['Model', test.model && <code>{test.model}</code>],
            ['Tokens', `${formatCount(test.input_tokens ?? 0)} in, ${formatCount(test.output_tokens ?? 0)} out`],
          ]}
        />
      )}
    </Body>
  </Card>
)

type EditProps = { workspace: string; me: Me; model: Model; onClose: () => void }
function EditCard({ workspace, me, model, onClose }: EditProps) {
  const [draft, setDraft] = useState(() => toDraft(model))
  const { start, busy, error } = useAction({ onDone: onClose, showsError: true })
  const action = changeModel(model, toPatch(draft), explainMissingManagement(me, workspace))
  return (
    <Card title="Edit the model">
      <Form
        error={error}
        label="Edit the model"
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Discard changes</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <ModelFields
          workspace={workspace}
          model={model}
          draft={draft}
          onChange={part => setDraft(current => ({ ...current, ...part }))}
          faults={listFaults(error)}
        />
      </Form>
    </Card>
  )
}
