// Registers a listener. Its page then shows how to start its agent.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { createListener } from './actions.ts'
import type { Listener } from './listener-state.ts'

const splitNames = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

export default function NewListener() {
  useCrumbs({ label: 'Listeners', to: '/listeners' }, { label: 'Register' })
  const [, navigate] = useLocation()
  const [type, setType] = useState<Listener['compute_type']>('local')
  const [name, setName] = useState('')
  const [namespaces, setNamespaces] = useState('')
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`/listeners/${(reply as Reply<'POST /v2/listeners'>).id}`)),
    showsError: true,
  })
  const action = createListener({
    compute_type: type,
    compute_id: name.trim(),
    namespaces: type === 'k8s' ? splitNames(namespaces) : [],
  })
  const faults = listFaults(error)
  return (
    <>
      <PageHead title="Register a listener" />
      <Card title="Listener">
        <Form
          error={error}
          label="Register a listener"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/listeners')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <Choices
            legend="Type"
            value={type}
            onChange={setType}
            options={[
              {
                value: 'local',
                label: 'A machine',
                detail: 'The agent runs deployments as processes, or as containers with Docker or Podman.',
              },
              {
                value: 'k8s',
                label: 'A Kubernetes cluster',
                detail: 'The agent runs images as Kubernetes objects in the namespaces that you allow.',
              },
            ]}
          />
          <TextField
            label="Name"
            mono
            value={name}
            onChange={setName}
            placeholder={type === 'k8s' ? 'cluster-eu-1' : 'build-server-1'}
            hint="The name of the machine or the cluster, unique in this workspace. It cannot be changed."
            fault={faultAt(faults, 'compute_id')}
          />
          {type === 'k8s' && (
            <TextField
              label="Namespaces"
              mono
              value={namespaces}
              onChange={setNamespaces}
              placeholder="apps, previews"
              hint="The namespaces that deployments can use. They must exist. If set, each deployment must name one."
              fault={faultAt(faults, 'compute_config')}
            />
          )}
        </Form>
      </Card>
    </>
  )
}
