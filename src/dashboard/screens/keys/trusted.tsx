// A trusted issuer: which tokens are exchanged for which keys, and how a job does that.
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, type Fact, Facts, Foot, Note } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import { Expiry } from './expiry.tsx'
import { GITHUB_ISSUER } from './issuer-presets.ts'
import { deleteTrustedIssuer } from './trusted-actions.ts'

const LIST = '/keys/trusted'

export default function TrustedIssuerPage({ workspace, params, me }: ScreenProps<{ trusted: string }>) {
  const ref = { params: { trusted_issuer_id: params.trusted } }
  const { data, error, refetch } = useRead(workspace, 'GET /v2/trusted-issuers/{trusted_issuer_id}', ref)
  const roles = useRoles(workspace)
  const [, navigate] = useLocation()
  useCrumbs({ label: 'Keys', to: '/keys' }, { label: 'Trusted issuers', to: LIST }, { label: data?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Trusted issuer not found"
        action={<ButtonLink href={toAddress(LIST)}>Open the trusted issuers</ButtonLink>}
      >
        The trusted issuer was deleted, or it belongs to another workspace. The audit log keeps the entries of its keys.
      </Empty>
    )
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={8} />
  const claims = Object.entries(data.claims)
  return (
    <Stack>
      <PageHead
        title={data.name}
        state={data.state === 'ended' && <Badge tone="bad">Ended</Badge>}
        actions={
          <ActionButton
            action={deleteTrustedIssuer({ me, workspace }, data)}
            onDone={() => navigate(toAddress(LIST))}
          />
        }
      />
      <Card title="Accepted tokens">
        <Body>
          <Facts
            facts={[
              ['Issuer', <code key="issuer">{data.issuer}</code>],
              ['Audience', <code key="audience">{data.audience}</code>],
              ['Subject', <code key="subject">{data.subject}</code>],
              ...claims.map(([name, pattern]): Fact => [`Claim ${name}`, <code key={name}>{pattern}</code>]),
            ]}
          />
        </Body>
      </Card>
      <Card title="Keys of jobs">
        <Body>
          <Facts
            facts={[
              [
                'Role',
                <Link key="role" to={`/roles/${data.role_id}`}>
                  {roles.nameOf(data.role_id)}
                </Link>,
              ],
              ['Keys are valid for', `${data.key_minutes} ${data.key_minutes === 1 ? 'minute' : 'minutes'}`],
              ['Last used', data.last_used_at ? <Ago time={data.last_used_at} suffix=" ago" /> : 'Never'],
              ['Ends', <Expiry key="ends" time={data.expires_at} />],
              [
                'Granted with',
                data.granted_by && (
                  <>
                    <Link to={`/keys/${data.granted_by}`}>a key</Link>
                    <span>If this key is revoked, tokens are no longer exchanged.</span>
                  </>
                ),
              ],
            ]}
          />
        </Body>
      </Card>
      <UseCard trusted={data} workspace={workspace} />
      <Foot>
        <p>
          Id <code>{data.id}</code>
        </p>
        <p>
          <Link to={`/audit?subject_id=${data.id}`}>History of this</Link>
        </p>
      </Foot>
    </Stack>
  )
}

type UseProps = { trusted: { issuer: string; audience: string }; workspace: string }
function UseCard({ trusted: { issuer, audience }, workspace }: UseProps) {
  const named = audience === location.origin ? '' : ` --audience ${audience}`
  return (
    <Card title="Use in a job">
      <Body>
        <CommandLine command={`slipway login --oidc --url ${location.origin} --workspace ${workspace}${named}`} />
        <Note>
          {issuer === GITHUB_ISSUER
            ? 'The job needs the permission “id-token: write”. Later commands of the job use the key.'
            : 'SLIPWAY_OIDC_TOKEN or SLIPWAY_OIDC_TOKEN_FILE has the token of the job. Later commands use the key.'}
        </Note>
      </Body>
    </Card>
  )
}
