// The heading of a column that sorts by it, or reverses the order.

import { Icon } from './icon.tsx'
import styles from './sort-button.module.css'
import type { Column } from './table.tsx'

type SortButtonProps = { sorted: Column['sorted']; onSort: () => void; children: string }
export const SortButton = ({ sorted, onSort, children }: SortButtonProps) => (
  <button type="button" class={styles.sort} onClick={onSort}>
    {children}
    {sorted && <Icon name={sorted === 'ascending' ? 'up' : 'down'} />}
  </button>
)
