// The remedies of an obstacle: actions, and links to other screens.
import { ActionButton } from '../../parts/action.tsx'
import { ButtonLink } from '../../parts/button.tsx'
import { toAddress } from '../../router/links.tsx'
import type { Remedy } from './explain.ts'

export const Remedies = ({ remedies }: { remedies: Remedy[] }) =>
  remedies.map(remedy =>
    'action' in remedy ? (
      <ActionButton key={remedy.action.label} small action={remedy.action} />
    ) : (
      <ButtonLink key={remedy.to} small href={toAddress(remedy.to)}>
        {remedy.label}
      </ButtonLink>
    ),
  )
