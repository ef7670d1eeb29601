#!/usr/bin/env bash
# GROMACS: a box of water prepared, relaxed and moved on one thread, which makes it repeatable.
source "$(dirname "$0")/common.sh"

about() {
    command -v gmx > /dev/null || absent gromacs
    printf 'version: GROMACS %s\n' \
        "$(gmx --version 2> /dev/null | sed -n 's/GROMACS version: *\([0-9.]*\).*/\1/p')"
    echo 'what: 1,800 molecules of water: solvate, grompp, minimisation, molecular dynamics,' \
        'energies'
}

prepare() {
    cat > "$folder/top" << 'END'
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
END
    printf 'integrator = steep\nnsteps = 20\nemtol = 10\ncoulombtype = PME\n' > "$folder/em.mdp"
    printf '%s\n' 'integrator = md' 'dt = 0.002' "nsteps = $(amount 60 5)" 'coulombtype = PME' \
        'tcoupl = v-rescale' 'tc-grps = system' 'tau-t = 0.1' 'ref-t = 300' 'gen-vel = yes' \
        'gen-seed = 7' 'ld-seed = 7' 'constraints = h-bonds' 'nstenergy = 10' > "$folder/md.mdp"
}

run() {
    local name edge
    edge=$(amount 3.8 2.6)
    local -x GMX_MAXBACKUP=-1 OMP_NUM_THREADS=1
    quietly() { gmx -quiet "$@" > log 2>&1 || wrong "$(tail -n3 log)"; }
    cd "$folder"
    cp top topol.top
    quietly solvate -cs spc216 -box "$edge" "$edge" "$edge" -o box.gro -p topol.top
    for name in em md; do
        quietly grompp -f $name.mdp -c box.gro -p topol.top -o $name.tpr -maxwarn 2
        quietly mdrun -deffnm $name -nt 1 -pin off -reprod -notunepme
        cp $name.gro box.gro
    done
    echo potential | quietly energy -f md.edr -o potential.xvg
    grep -v '^[#@]' potential.xvg
    md5sum < md.gro
}

drive "$@"
