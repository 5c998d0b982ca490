// Trusts an issuer: by names of the CI, or by issuer and subject of its tokens.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Choices, Form } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Note } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import { type Answers, NO_ANSWERS, nameOf, PARTS, type Preset, trustedOf } from './issuer-presets.ts'
import { createTrustedIssuer } from './trusted-actions.ts'

const LIST = '/keys/trusted'
const CHOICES = [
  { value: 'github', label: 'GitHub Actions', detail: 'Jobs of a repository at github.com.' },
  { value: 'gitlab', label: 'GitLab', detail: 'Jobs of a project at gitlab.com or your own instance.' },
  { value: 'kubernetes', label: 'Kubernetes', detail: 'Pods with a service account of a cluster.' },
  { value: 'other', label: 'Another issuer', detail: 'Any issuer with OpenID Connect discovery.' },
] satisfies { value: Preset; label: string; detail: string }[]

export default function NewTrustedIssuer({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Keys', to: '/keys' }, { label: 'Trusted issuers', to: LIST }, { label: 'Trust' })
  const [preset, setPreset] = useState<Preset>('github')
  const [answers, setAnswers] = useState<Answers>(NO_ANSWERS)
  const [name, setName] = useState('')
  const [audience, setAudience] = useState('')
  const [chosenRole, setChosenRole] = useState('')
  const [, navigate] = useLocation()
  const roles = useRoles(workspace).of('workspace')
  const role =
    roles.find(({ id }) => id === chosenRole) ?? roles.find(({ display_name }) => display_name === 'Editor') ?? roles[0]
  const trusted = trustedOf(preset, answers)
  const defaultName = nameOf(preset, answers)
  const { repository, namespace, account } = answers
  const isNamed = { github: repository, gitlab: repository, kubernetes: namespace && account, other: '' }[preset] !== ''
  const action = createTrustedIssuer(
    { me, workspace },
    { ...trusted, name: name.trim() || defaultName, audience: audience.trim(), role_id: role?.id ?? '' },
  )
  const { start, busy, error } = useAction({
    onDone: reply => navigate(toAddress(`${LIST}/${(reply as unknown as Reply<'POST /v2/trusted-issuers'>).id}`)),
    showsError: true,
  })
  const faults = listFaults(error)
  const answer = (member: keyof Answers) => (text: string) => setAnswers({ ...answers, [member]: text })
  const issuerFault = faultAt(faults, 'issuer')
  const subjectFault = faultAt(faults, 'subject')
  return (
    <>
      <PageHead title="Trust an issuer" />
      <Card title="Keyless CI">
        <Form
          label="Trust an issuer"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy} unavailable={action.unavailable}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress(LIST)}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <Choices legend="Where the jobs run" value={preset} onChange={setPreset} options={CHOICES} />
          {(preset === 'github' || preset === 'gitlab') && (
            <TextField
              label={preset === 'github' ? 'Repository' : 'Project'}
              value={answers.repository}
              onChange={answer('repository')}
              placeholder="acme/shop"
              mono
              fault={subjectFault}
            />
          )}
          {preset === 'github' && (
            <SelectField label="Which jobs" value={answers.part} onChange={answer('part')} options={PARTS} />
          )}
          {(preset === 'gitlab' || (preset === 'github' && ['branch', 'environment'].includes(answers.part))) && (
            <TextField
              label={preset === 'github' && answers.part === 'environment' ? 'Environment' : 'Branch'}
              value={answers.ref}
              onChange={answer('ref')}
              mono
              hint="* matches any text, for example release/*"
            />
          )}
          {preset !== 'github' && (
            <TextField
              label={preset === 'gitlab' ? 'Address of GitLab' : 'Issuer'}
              value={answers.issuer}
              onChange={answer('issuer')}
              placeholder={preset === 'gitlab' ? 'https://gitlab.com' : 'https://oidc.example.com'}
              inputMode="url"
              mono
              hint={
                preset === 'kubernetes'
                  ? 'The issuer of the service accounts, as shown by kubectl get --raw /.well-known/openid-configuration.'
                  : 'This installation reads the public keys from this URL.'
              }
              fault={issuerFault}
            />
          )}
          {preset === 'kubernetes' && (
            <>
              <TextField label="Namespace" value={answers.namespace} onChange={answer('namespace')} mono />
              <TextField
                label="Service account"
                value={answers.account}
                onChange={answer('account')}
                mono
                fault={subjectFault}
              />
            </>
          )}
          {preset === 'other' && (
            <TextField
              label="Subject"
              value={answers.subject}
              onChange={answer('subject')}
              mono
              hint="The sub claim of the tokens. * matches any text."
              fault={subjectFault}
            />
          )}
          {isNamed && (
            <Note>
              Accepts tokens with the subject <code>{trusted.subject}</code>
            </Note>
          )}
          <SelectField
            label="Role of the keys"
            value={role?.id ?? ''}
            onChange={setChosenRole}
            options={roles.map(({ id, display_name }) => ({ value: id, label: display_name }))}
            hint={role?.description}
            fault={faultAt(faults, 'role_id')}
          />
          <TextField
            label="Audience"
            value={audience}
            onChange={setAudience}
            placeholder={location.origin}
            mono
            hint="The aud claim of the tokens. By default the URL of this installation."
            fault={faultAt(faults, 'audience')}
          />
          <TextField
            label="Name"
            value={name}
            onChange={setName}
            placeholder={defaultName}
            hint="Shown in lists."
            fault={faultAt(faults, 'name')}
          />
          {error && <Problem error={error} />}
        </Form>
      </Card>
    </>
  )
}
