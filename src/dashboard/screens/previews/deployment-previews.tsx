// The previews of a deployment, and the policy that they follow.
import { useState } from 'preact/hooks'
import { type Action, request } from '../../api/actions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import type { Deployment } from '../../format/state.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toAddress } from '../../router/links.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { type Policy, PolicyDialog } from './policy.tsx'
import { PreviewList } from './preview-list.tsx'
import styles from './previews.module.css'
import {
  describeDatabase,
  describeExisting,
  describeInherited,
  describeKinds,
  describeTtl,
  policyCommand,
} from './words.ts'

export default function DeploymentPreviews({ workspace, params }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/previews">
      {deployment =>
        deployment.parent_deployment_id ? (
          <Empty
            title="This deployment is a preview"
            action={
              <ButtonLink href={toAddress(`/deployments/${deployment.parent_deployment_id}/previews`)}>
                Open all previews
              </ButtonLink>
            }
          >
            This deployment belongs to another deployment, so it has no previews.
          </Empty>
        ) : (
          <OfDeployment workspace={workspace} deployment={deployment} />
        )
      }
    </DeploymentFrame>
  )
}

function OfDeployment({ workspace, deployment }: { workspace: string; deployment: Deployment }) {
  const ref = { params: { deployment_id: deployment.id } }
  const policy = useRead(workspace, 'GET /v2/deployments/{deployment_id}/preview-policy', ref)
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    'GET /v2/deployments/{deployment_id}/previews',
    { ...ref, query: { limit: 50 } },
  )
  const [isEditing, setEditing] = useState(false)
  const isGit = deployment.source === 'githost'
  const hasNone = isMissing(policy.error)
  const stored = hasNone ? undefined : policy.data
  const edit = (
    <Button small={!hasNone} look={hasNone ? 'primary' : 'default'} onClick={() => setEditing(true)}>
      {hasNone ? 'Set up previews' : 'Change policy'}
    </Button>
  )
  return (
    <>
      {hasNone ? (
        <Card class={styles.block} title="Policy">
          <Empty
            title="No preview policy"
            command={isGit ? policyCommand(deployment.id) : `slipway preview --name ${deployment.name}`}
            action={edit}
          >
            {isGit
              ? 'Pull requests and branches of the repository get deployments of their own. The policy selects them, ' +
                'their lifetime and the treatment of forks.'
              : 'A preview of an archive or an image is made by request. The policy sets its lifetime and secrets.'}
          </Empty>
        </Card>
      ) : stored ? (
        <PolicyCard deployment={deployment} policy={stored} edit={edit} />
      ) : policy.error ? (
        <Problem error={policy.error} onRetry={() => void policy.refetch()} />
      ) : (
        <Skeleton lines={3} />
      )}
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {items && (items.length > 0 || stored) && (
        <Card class={styles.block} title="Previews">
          {items.length === 0 ? (
            <p class={styles.nothing}>
              No previews yet.{' '}
              {isGit
                ? 'Open a pull request from a branch that the policy matches, or push to one.'
                : 'The command slipway preview makes one.'}
            </p>
          ) : (
            <PreviewList
              workspace={workspace}
              previews={items}
              caption={`Previews of ${deployment.name}, newest first`}
            />
          )}
        </Card>
      )}
      {hasNextPage && (
        <div class={styles.more}>
          <Button busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Show more previews
          </Button>
        </div>
      )}
      {isEditing && <PolicyDialog deployment={deployment} stored={stored} onClose={() => setEditing(false)} />}
    </>
  )
}

const removePolicy = (deployment: Deployment): Action => ({
  label: 'Remove policy',
  request: request('DELETE /v2/deployments/{deployment_id}/preview-policy', {
    params: { deployment_id: deployment.id },
  }),
  confirm: {
    title: `Remove the preview policy of ${deployment.name}?`,
    body:
      'All previews are removed: their deployments, URLs and logs, and the secrets of the policy are deleted. ' +
      `${deployment.name} does not change.`,
    isDestructive: true,
  },
  done: `${deployment.name}: the preview policy and its previews are removed.`,
})

type PolicyCardProps = { deployment: Deployment; policy: Policy; edit: preact.ComponentChildren }
function PolicyCard({ deployment, policy, edit }: PolicyCardProps) {
  const { branches, kinds, ttl, max, forks, secrets, inherited_secrets, resource_spec, database, hooks } = policy
  const isProtected = policy.protection.mode === 'members'
  const existing = policy.existing_branches
  const facts: [string, preact.ComponentChildren][] = [
    ['Made for', describeKinds(kinds)],
    ['Branches', <Codes key="branches" values={branches} />],
    ['Kept for', `${describeTtl(ttl)} after the last push`],
    ['At most', `${max} at once`],
    ...(existing ? [['Existing branches', describeExisting(existing)] as const] : []),
    ['Forks', forks === 'approve' ? 'after approval of the commit' : 'never'],
    ['Seen by', isProtected ? 'members, and holders of a link' : 'everyone who knows the address'],
    [
      'Secrets',
      secrets.length > 0 ? <Codes key="secrets" values={secrets.map(({ name }) => name)} /> : 'none of their own',
    ],
    ['Inherited', describeInherited(kinds, inherited_secrets)],
    ...(database ? [['Database', describeDatabase(database)] as const] : []),
    ...(resource_spec ? [['Resources', <code key="spec">{JSON.stringify(resource_spec)}</code>] as const] : []),
    ...(hooks
      ? [
          [
            'Hooks',
            <Codes key="hooks" values={[hooks.on_create, hooks.on_delete].filter(url => url !== null)} />,
          ] as const,
        ]
      : []),
  ] as [string, preact.ComponentChildren][]
  return (
    <Card
      class={styles.block}
      title="Policy"
      aside={
        <>
          {edit}
          <ActionButton small look="bare" action={removePolicy(deployment)} />
        </>
      }
    >
      <dl class={styles.policy}>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

const Codes = ({ values }: { values: string[] }) => (
  <span class={styles.codes}>
    {values.map(value => (
      <code key={value}>{value}</code>
    ))}
  </span>
)
