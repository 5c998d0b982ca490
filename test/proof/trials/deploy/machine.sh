#!/usr/bin/env bash
# Becomes the first process of a machine with systemd: its own files over those of this machine, and its network.
# machine.sh FOLDER PROJECT
set -euo pipefail
work=$1 project=$2
mount --make-rprivate /
mkdir -p "$work/upper/var/lib" "$work/overlay" "$work/root"
# A whiteout hides what this machine has of an earlier installation, also while agents on this machine write to it.
mknod "$work/upper/var/lib/slipway" c 0 0
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
cd "$work/root"
mkdir -p opt/slipway
mount --bind "$project" opt/slipway
mount -t proc proc proc
. "$project/test/proof/support/bind-sys.sh"
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
rm -rf etc/systemd/system/*.wants/*
pivot_root . mnt
umount -l /mnt
export container=podman
exec /lib/systemd/systemd --log-target=null --unit=multi-user.target
