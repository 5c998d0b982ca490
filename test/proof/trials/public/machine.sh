#!/usr/bin/env bash
# Becomes the first process of a machine with systemd: its own files over those of this machine, and its own network.
# machine.sh FOLDER CADDY
set -euo pipefail
work=$1 caddy=$2 root=$PWD
mount --make-rprivate /
mkdir -p "$work/upper" "$work/overlay" "$work/machine"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/overlay" "$work/machine"
cd "$work/machine"
mkdir -p opt/slipway trial etc/systemd/system
mount --bind "$root" opt/slipway
mount --bind "$work/shared" trial
mount -t proc proc proc
. "$root/test/proof/support/bind-sys.sh"
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
cp "$caddy" usr/bin/caddy
cp "$(command -v pebble)" "$(command -v pebble-challtestsrv)" usr/local/bin
rm -f etc/resolv.conf etc/systemd/system/*.wants/*
echo 'nameserver 127.0.0.1' >etc/resolv.conf
ip link set lo up
ip link add eth0 type bridge
ip addr add 203.0.113.7/24 dev eth0
ip link set eth0 up
pivot_root . mnt
umount -l /mnt
export container=podman
exec /lib/systemd/systemd --log-target=null --unit=multi-user.target
